"""What processes hold and burn while nothing is to do."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import psutil


@dataclass(frozen=True, slots=True)
class Idle:
    """Figures of one installation.

    Attributes:
        memory: bytes by group of processes: each page that several share counts in parts (PSS).
        cpu: percent of a core by group.
        connections: to PostgreSQL.
    """

    memory: dict[str, int]
    cpu: dict[str, float]
    connections: int


def measured(
    groups: Callable[[], dict[str, list[psutil.Process]]], seconds: float, connections: Callable[[], int]
) -> Idle:
    """Look at the groups for so many seconds."""
    before, began = {name: _cpu(each) for name, each in groups().items()}, time.monotonic()
    time.sleep(seconds)
    found, lasted = groups(), time.monotonic() - began
    after = {name: _cpu(each) for name, each in found.items()}
    return Idle(
        {name: sum(map(_pss, each)) for name, each in found.items()},
        {name: 100 * max(0.0, after[name] - before.get(name, 0.0)) / lasted for name in after},
        connections(),
    )


def family(pid: int) -> list[psutil.Process]:
    """A process and all below it."""
    parent = psutil.Process(pid)
    return [parent, *parent.children(recursive=True)]


def _pss(process: psutil.Process) -> int:
    with suppress(OSError, psutil.Error):
        for line in Path(f"/proc/{process.pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) * 1024
    return 0


def _cpu(processes: list[psutil.Process]) -> float:
    seconds = 0.0
    for each in processes:
        with suppress(psutil.Error):
            times = each.cpu_times()
            # PostgreSQL's short-lived children count when the postmaster has waited for them.
            seconds += times.user + times.system + times.children_user + times.children_system
    return seconds
