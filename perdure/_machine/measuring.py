"""Memory and CPU time of a process, from /proc: see proc_pid_stat(5)."""

from __future__ import annotations

import os
from pathlib import Path

_UTIME, _STIME = 11, 12  # counted after the name, which may contain spaces
_RESIDENT = 1


def resident_bytes(pid: int | None) -> int | None:
    """Memory that the process has in RAM; None if there is no such process."""
    parts = _read(pid, "statm").split()
    return int(parts[_RESIDENT]) * os.sysconf("SC_PAGE_SIZE") if parts else None


def cpu_seconds(pid: int | None) -> float | None:
    """CPU time that the process has used; None if there is no such process."""
    parts = _read(pid, "stat").rpartition(")")[2].split()
    return (int(parts[_UTIME]) + int(parts[_STIME])) / os.sysconf("SC_CLK_TCK") if parts else None


def _read(pid: int | None, name: str) -> str:
    try:
        return Path(f"/proc/{pid}/{name}").read_text()
    except OSError:
        return ""
