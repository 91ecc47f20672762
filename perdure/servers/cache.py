"""What is fetched or built once for this machine: made whole or not at all, by one process at a time.

Kept under `$XDG_CACHE_HOME/perdure`, or `~/.cache/perdure`. Deleting it costs time, nothing else.
"""

import fcntl
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from perdure.servers.progress import progress


def cache_directory() -> Path:
    """Return where this user's copies are kept; it may not exist yet."""
    configured = os.environ.get("XDG_CACHE_HOME", "")
    # The XDG base directory specification: a relative path is to be ignored.
    base = Path(configured) if Path(configured).is_absolute() else Path.home() / ".cache"
    return base / "perdure"


def made_once(target: Path, make: Callable[[Path], None]) -> Path:
    """Return `target`, which `make` makes when it isn't there yet.

    Of processes that ask at once, one makes it and the others wait. When `make` fails nothing is left behind.

    Args:
        target: a file or directory that is complete as soon as it exists.
        make: is given a path in a new directory next to `target`, and puts a file or directory there.
    """
    if target.exists():
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    with alone(target.with_name(f".{target.name}.lock")):
        if not target.exists():
            workplace = Path(tempfile.mkdtemp(prefix=f".{target.name}.", dir=target.parent))
            try:
                make(workplace / target.name)
                (workplace / target.name).rename(target)
            finally:
                shutil.rmtree(workplace, ignore_errors=True)
    return target


@contextmanager
def alone(lock: Path) -> Iterator[None]:
    """Hold `lock`, a file of which nothing but its existence matters, against all other processes.

    Waits without limit, and prints a note. The system gives it back when its holder dies.
    """
    # The lock file stays: if it were removed, a third process could lock a new file while a second one waits
    # on the old.
    with lock.open("w") as file:
        with progress(f"waiting for another process, which holds {lock}"):
            fcntl.flock(file, fcntl.LOCK_EX)
        yield
