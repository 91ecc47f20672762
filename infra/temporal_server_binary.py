"""The real Temporal server for PostgreSQL, and the schema of its databases: built with Go, once, into our cache.

The schema comes out of the same sources as the program, so that the two always fit.
"""

import re
import shutil
from dataclasses import dataclass
from pathlib import Path

from perdure.servers.cache import cache_directory, made_once
from perdure.servers.go import go_install, go_sources
from perdure.servers.temporal_binary import TemporalMissingError

# The newest that the Go of 2026 on our machines builds.
VERSION = "1.32.0"
_MODULE = "go.temporal.io/server"
_SCHEMA = Path("schema/postgresql/v12")


@dataclass(frozen=True)
class ServerFiles:
    """Where they are: the program, and by database its schema as SQL and that schema's version."""

    program: Path
    schemas: dict[str, Path]
    versions: dict[str, str]


def find_temporal_server() -> ServerFiles | None:
    """Return the files if they are in our cache; fetch nothing."""
    return _files(_cached()) if _cached().exists() else None


def obtain_temporal_server() -> ServerFiles:
    """Return the files, built into our cache first if need be: about 3 minutes on two cores, once for a machine.

    Raises:
        TemporalMissingError: they are not there and could not be built; the message says why.
    """
    return _files(made_once(_cached(), _make))


def _cached() -> Path:
    return cache_directory() / f"temporal-server-{VERSION}"


def _files(folder: Path) -> ServerFiles:
    names = {"temporal": "temporal", "temporal_visibility": "visibility"}
    return ServerFiles(
        folder / "server",
        {database: folder / f"{name}.sql" for database, name in names.items()},
        {database: (folder / f"{name}.version").read_text() for database, name in names.items()},
    )


def _make(target: Path) -> None:
    target.mkdir()
    try:
        go_install(
            f"{_MODULE}/cmd/server@v{VERSION}",
            target,
            f"building the Temporal server {VERSION} with Go (once, about 3 minutes)",
        )
        sources = go_sources(f"{_MODULE}@v{VERSION}", target)
    except (RuntimeError, OSError) as error:
        raise TemporalMissingError(
            f"no Temporal server for PostgreSQL. Tried, in this order:\n  - our cache: no {_cached()}\n"
            f"  - go install {_MODULE}/cmd/server@v{VERSION}: {error}\n"
            "Install Go (1.26 or newer) and see that it reaches its modules"
        ) from error
    for name, constant in {"temporal": "Version", "visibility": "VisibilityVersion"}.items():
        shutil.copyfile(sources / _SCHEMA / name / "schema.sql", target / f"{name}.sql")
        (target / f"{name}.version").write_text(_constant(sources / _SCHEMA / "version.go", constant))


def _constant(source: Path, name: str) -> str:
    found = re.search(rf'^const {name} = "(.+)"$', source.read_text(), re.MULTILINE)
    if found is None:
        raise TemporalMissingError(f"{source} declares no {name}: the version of the schema is not known")
    return found[1]
