"""The `promtool` program of Prometheus, which checks alert rules.

Looked for on PATH and in our cache; else taken out of Debian's package, which needs no root, or built with Go.
"""

import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

from perdure.servers.cache import cache_directory, made_once
from perdure.servers.programs import by_first_way, output_of
from perdure.servers.progress import progress

_GO_PACKAGE, _GO_VERSION = "github.com/prometheus/prometheus/cmd/promtool", "v0.308.0"


class PromtoolMissingError(RuntimeError):
    """There is no `promtool` program, and none of the ways to get one worked."""


def obtain_promtool() -> Path:
    """Return the program, fetched into our cache first if need be.

    Raises:
        PromtoolMissingError: with what was tried, and why each of it failed.
    """
    on_path = shutil.which("promtool")
    return Path(on_path) if on_path else made_once(cache_directory() / "bin" / "promtool", _make)


def _make(target: Path) -> None:
    absent = "PATH and our cache: no program 'promtool'"
    ways: dict[str, Callable[[Path], None]] = {
        "Debian's package prometheus": _from_debian,
        f"go build {_GO_PACKAGE}@{_GO_VERSION}": _build,
    }
    if tried := by_first_way(ways, target):
        raise PromtoolMissingError(
            "no promtool. Tried, in this order:\n  - "
            + "\n  - ".join([absent, *tried])
            + "\nPut promtool on PATH: it comes with Prometheus"
        )


def _from_debian(target: Path) -> None:
    with tempfile.TemporaryDirectory(dir=target.parent) as folder, progress("downloading Prometheus (once)"):
        output_of(["apt-get", "-o", "APT::Sandbox::User=", "download", "prometheus"], Path(folder))
        [package] = Path(folder).glob("prometheus_*.deb")
        output_of(["dpkg-deb", "-x", str(package), "unpacked"], Path(folder))
        (Path(folder) / "unpacked/usr/bin/promtool").rename(target)


def _build(target: Path) -> None:
    """In a module of its own: `go install` refuses a go.mod that has `replace` or `exclude`, as this one's."""
    environment = {"GOWORK": "off", "GOFLAGS": "-mod=mod"}
    with (
        tempfile.TemporaryDirectory(dir=target.parent) as folder,
        progress("building promtool with Go (once, some minutes)"),
    ):
        for arguments in (
            ["mod", "init", "promtool"],
            ["get", f"{_GO_PACKAGE}@{_GO_VERSION}"],
            ["build", "-o", str(target), _GO_PACKAGE],
        ):
            output_of(["go", *arguments], Path(folder), environment)
