"""CPU seconds of a server with its processes, also of those that have ended."""

from __future__ import annotations

from contextlib import suppress

import psutil


def cpu_seconds(pid: int) -> float:
    """So far."""
    seconds = 0.0
    with suppress(psutil.Error):
        parent = psutil.Process(pid)
        for each in (parent, *parent.children(recursive=True)):
            with suppress(psutil.Error):
                seconds += sum(each.cpu_times()[:4])  # a process's own, and those of children that were waited for
    return seconds
