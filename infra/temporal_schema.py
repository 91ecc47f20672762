"""The schema of the Temporal server's two databases as SQL, for a PostgreSQL without contrib, as pip's is.

It comes out of the sources that the programs are built from. `perdure up` uses Temporal's own tool instead.
"""

import re
import shutil
from dataclasses import dataclass
from pathlib import Path

from perdure.servers.cache import cache_directory, made_once
from perdure.servers.go import go_sources
from perdure.servers.temporal_binary import TemporalMissingError
from perdure.servers.temporal_on_postgres import MAIN, VISIBILITY
from perdure.servers.temporal_programs import VERSION

_MODULE = f"go.temporal.io/server@v{VERSION}"
_FOLDER = Path("schema/postgresql/v12")
_NAMES = {MAIN: ("temporal", "Version"), VISIBILITY: ("visibility", "VisibilityVersion")}


@dataclass(frozen=True)
class Schema:
    """The schema of one database, and the version that the server looks for."""

    sql: str
    version: str


def obtain_schemas() -> dict[str, Schema]:
    """Return the schema of each database, out of our cache, into which Go's module proxy brings it first.

    Raises:
        TemporalMissingError: it could not be had; the message has the reason.
    """
    folder = made_once(cache_directory() / f"temporal-schema-{VERSION}", _make)
    return {
        database: Schema((folder / f"{name}.sql").read_text(), (folder / f"{name}.version").read_text())
        for database, (name, _) in _NAMES.items()
    }


def _make(target: Path) -> None:
    target.mkdir()
    try:
        sources = go_sources(_MODULE, target) / _FOLDER
    except (RuntimeError, OSError) as error:
        raise TemporalMissingError(f"no sources of {_MODULE}: {error}. Install Go (1.26 or newer)") from error
    for name, constant in _NAMES.values():
        shutil.copyfile(sources / name / "schema.sql", target / f"{name}.sql")
        (target / f"{name}.version").write_text(_constant(sources / "version.go", constant))


def _constant(source: Path, name: str) -> str:
    found = re.search(rf'^const {name} = "(.+)"$', source.read_text(), re.MULTILINE)
    if found is None:
        raise TemporalMissingError(f"{source} declares no {name}: the version of the schema is not known")
    return found[1]
