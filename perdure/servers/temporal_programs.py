"""The Temporal server for PostgreSQL and the tool that makes its schema: found, downloaded or built, once.

`temporal-server` is all of Temporal's services in one process. Its archive has no Web UI; Temporal's `ui-server` is
used where the machine has it.
"""

from __future__ import annotations

import logging
import os
import platform
import re
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from perdure.servers.cache import cache_directory, made_once
from perdure.servers.go import go_install
from perdure.servers.programs import by_first_way
from perdure.servers.releases import download_programs
from perdure.servers.temporal_binary import TemporalMissingError

_log = logging.getLogger("perdure.up")

VERSION = "1.32.0"
"""Newer ones need a newer Go than 1.26.8 where they are built."""
SERVER, SQL_TOOL = "temporal-server", "temporal-sql-tool"
FOLDER, RELEASES, CHECKSUM = "PERDURE_TEMPORAL_BIN", "PERDURE_TEMPORAL_RELEASES", "PERDURE_TEMPORAL_CHECKSUM"
_MODULE = "go.temporal.io/server"
_PACKAGES = {SERVER: "cmd/server", SQL_TOOL: "cmd/tools/sql"}
_PUBLISHED_AT = "https://github.com/temporalio/temporal/releases/download"
_PINNED = {"temporal_1.32.0_linux_amd64.tar.gz": "ca1ccbb1d1545b68eb4523de463c51ffcd80f7e0bccd14a9b2c56fc7e389e792"}
"""Checksums of archives, as independent users of this release have pinned them. None was found for Linux on ARM."""
_MACHINES = {"x86_64": "amd64", "aarch64": "arm64"}
_WEB_UI = ("temporal-ui-server", "ui-server")
_WEB_UI_PACKAGE = "github.com/temporalio/ui-server/v2/cmd/server@v2.55.0"
"""Newer ones need a newer Go than 1.26.8. Older ones show details in their dark theme in black on black."""


@dataclass(frozen=True)
class Programs:
    """Where the programs are.

    Attributes:
        server: `temporal-server`.
        sql_tool: `temporal-sql-tool`, of the same version.
        version: of both, such as "1.32.0".
    """

    server: Path
    sql_tool: Path
    version: str


def obtain_programs() -> Programs:
    """Find them in the folder that `PERDURE_TEMPORAL_BIN` names, on PATH or in the cache; else download or build them.

    A build takes some 400 s of CPU, once for a machine.

    Raises:
        TemporalMissingError: with what was tried, and why each of it failed.
    """
    configured = os.environ.get(FOLDER)
    if configured:
        return _in_folder(Path(configured))
    server, tool = shutil.which(SERVER), shutil.which(SQL_TOOL)
    if server and tool:
        return Programs(Path(server), Path(tool), _version(Path(server)))
    return _in_folder(made_once(_cached(), _make))


def find_web_ui() -> Path | None:
    """Temporal's `ui-server`, if the configured folder, PATH or the cache has it; nothing is fetched."""
    folders = [folder for folder in (os.environ.get(FOLDER), str(cache_directory() / "bin")) if folder]
    path = os.pathsep.join([*folders, os.environ.get("PATH", os.defpath)])
    found = (shutil.which(name, path=path) for name in _WEB_UI)
    return next((Path(each) for each in found if each), None)


def obtain_web_ui() -> Path:
    """Find the Web UI, or build it with Go into our cache: a minute or two, once for a machine.

    Raises:
        TemporalMissingError: it is not there, and could not be built.
    """
    return find_web_ui() or made_once(cache_directory() / "bin" / _WEB_UI[0], _build_web_ui)


def archive() -> str:
    """The address of the release archive for this machine.

    Raises:
        OSError: Temporal publishes none for it.
    """
    machine = _MACHINES.get(platform.machine())
    if platform.system() != "Linux" or machine is None:
        raise OSError(f"Temporal publishes no archive for {platform.system()} on {platform.machine()}")
    where = os.environ.get(RELEASES, _PUBLISHED_AT).rstrip("/")
    return f"{where}/v{VERSION}/temporal_{VERSION}_linux_{machine}.tar.gz"


def _in_folder(folder: Path) -> Programs:
    missing = [name for name in (SERVER, SQL_TOOL) if not os.access(folder / name, os.X_OK)]
    if missing:
        raise TemporalMissingError(
            f"{folder} has no program {' and no '.join(missing)}: set {FOLDER} to the folder that has both, "
            "or unset it, and they are fetched"
        )
    return Programs(folder / SERVER, folder / SQL_TOOL, _version(folder / SERVER))


def _version(server: Path) -> str:
    """What the program reports; '' if that is no version."""
    output = subprocess.run([server, "--version"], capture_output=True, text=True, check=False).stdout
    found = re.search(r"\d+\.\d+\.\d+\S*", output)
    return found[0] if found else ""


def _cached() -> Path:
    return cache_directory() / f"temporal-{VERSION}"


def _make(target: Path) -> None:
    target.mkdir()
    ways: dict[str, Callable[[Path], None]] = {
        "its release archive": _download,
        f"go install {_MODULE}@v{VERSION}": _build,
    }
    if tried := by_first_way(ways, target):
        looked = [
            f"PATH: not both {SERVER!r} and {SQL_TOOL!r}",
            f"our cache: no {_cached()}",
        ]
        raise TemporalMissingError(
            "no Temporal server for PostgreSQL. Tried, in this order:\n  - "
            + "\n  - ".join([*looked, *tried])
            + f"\nSet {FOLDER} to a folder that has {SERVER} and {SQL_TOOL}, or install Go (1.26 or newer)"
        )


def _download(folder: Path) -> None:
    address, what = archive(), f"downloading the Temporal server {VERSION} (once)"
    name = address.rpartition("/")[2]
    pinned = os.environ.get(CHECKSUM) or _PINNED.get(name, "")
    found = download_programs(address, (SERVER, SQL_TOOL), folder, sha256=pinned, what=what)
    if not pinned:
        _log.warning(
            "%s was compared only with the checksum published beside it, because Perdure has none built in for it: "
            "compare %s with a source that you trust, and set %s to it on your other machines",
            *(name, found, CHECKSUM),
        )


def _build(folder: Path) -> None:
    for name, package in _PACKAGES.items():
        what = f"building {name} {VERSION} with Go (once, 4 minutes or more)"
        go_install(f"{_MODULE}/{package}@v{VERSION}", folder, what)
        (folder / package.rpartition("/")[2]).rename(folder / name)


def _build_web_ui(target: Path) -> None:
    try:
        go_install(_WEB_UI_PACKAGE, target.parent, "building Temporal's Web UI with Go (once, a minute or two)")
    except (RuntimeError, OSError) as error:
        raise TemporalMissingError(
            f"no Web UI: {error}. Put Temporal's `ui-server` on PATH or into the folder that {FOLDER} names"
        ) from error
    (target.parent / "server").rename(target)
