"""A folder in memory, for what may be lost with the machine: files there cost a tenth of what they cost on a disk."""

import shutil
from pathlib import Path

SHARED_MEMORY = Path("/dev/shm")
_PLENTY = 4 << 30  # bytes that must be free: a container often has 64 MB of it


def memory() -> Path | None:
    """Return where files are kept in memory; None = there is no such place here, or little room in it."""
    return SHARED_MEMORY if SHARED_MEMORY.is_dir() and shutil.disk_usage(SHARED_MEMORY).free > _PLENTY else None
