"""Keeps processes on single cores, as `taskset` does: what one side takes is not in the other's way."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil


def cores() -> tuple[int, int] | None:
    """A core for the servers and one for the workers; None where there is only one."""
    found = sorted(os.sched_getaffinity(0))
    return (found[0], found[1]) if len(found) > 1 else None


@contextmanager
def pinned(on: tuple[int, int], servers: Iterable[int], workers: Iterable[int]) -> Iterator[None]:
    """Keep the processes, with their threads and children, on the two cores, for as long as the context lasts.

    What they start meanwhile stays there too.
    """
    every = os.sched_getaffinity(0)
    sides = ((on[0], list(servers)), (on[1], list(workers)))
    try:
        for core, pids in sides:
            _keep(pids, {core})
        yield
    finally:
        for _, pids in sides:
            _keep(pids, every)


def _keep(pids: Iterable[int], on: set[int]) -> None:
    for pid in pids:
        for process in [psutil.Process(pid), *psutil.Process(pid).children(recursive=True)]:
            for thread in Path(f"/proc/{process.pid}/task").glob("*"):
                with suppress(ProcessLookupError):  # it has just ended
                    os.sched_setaffinity(int(thread.name), on)
