"""The `vale` program, which checks the prose of the pages. Looked for on PATH and in our cache, else built with Go."""

import shutil
import subprocess
import sys
from pathlib import Path

from perdure.servers.cache import cache_directory, made_once
from perdure.servers.go import go_install

_PACKAGE, _VERSION = "github.com/vale-cli/vale/v3/cmd/vale", "v3.21.0"
_CONFIG = Path(__file__).parent / "site" / "prose" / "vale.ini"


def obtain_vale() -> Path:
    """Return the program, built into our cache first if need be.

    Raises:
        FileNotFoundError: there is no program and no Go on PATH.
        RuntimeError: it could not be built.
    """
    on_path = shutil.which("vale")
    return Path(on_path) if on_path else made_once(cache_directory() / "bin" / f"vale-{_VERSION}", _make)


def _make(target: Path) -> None:
    go_install(f"{_PACKAGE}@{_VERSION}", target.parent, "building Vale with Go (once, some minutes)")
    (target.parent / "vale").rename(target)


if __name__ == "__main__":
    sys.exit(subprocess.run([obtain_vale(), "--config", _CONFIG, *sys.argv[1:]]).returncode)
