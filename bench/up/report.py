"""The table, for the terminal and for docs/one-machine.md."""

from __future__ import annotations

import datetime
from collections.abc import Mapping

from bench.up.steps import Measured

STEPS = ("packages", "first start, Temporal built", "first start, programs there", "later start")
_NAMES = {
    "packages": "packages by pip, nothing cached",
    "first start, Temporal built": "first start, Temporal's programs built with Go",
    "first start, programs there": "first start, programs there",
    "later start": "later start",
}


def rows(found: Mapping[str, Measured]) -> list[list[str]]:
    """The heading, and a line for each figure."""
    lines = [["", *found]]
    for step in STEPS:
        seconds = [_seconds(each.seconds.get(step)) for each in found.values()]
        lines += [[_NAMES[step], *seconds]] if any(seconds) else []
    groups = dict.fromkeys(group for each in found.values() if each.idle for group in each.idle.memory)
    own = [group for group in groups if group != "PostgreSQL"]
    memory = [sum(each.idle.memory.get(group, 0) for group in own) if each.idle else None for each in found.values()]
    lines.append(["memory (PSS)", *("" if each is None else f"{each / 1e6:.0f} MB" for each in memory)])
    for group in own if len(own) > 1 else []:
        lines.append([f"of it {group}", *(_memory(each, group) for each in found.values())])
    for group in groups:
        lines.append([f"CPU while idle: {group}", *(_cpu(each, group) for each in found.values())])
    lines.append(
        ["connections to PostgreSQL", *(str(each.idle.connections) if each.idle else "" for each in found.values())]
    )
    return lines


def sentences(found: Mapping[str, Measured], system: float, load: float, day: datetime.date, idle: float) -> str:
    """What the table was measured with."""
    built = next((each.build for each in found.values() if each.build is not None), None)
    cpu = "" if built is None else f" Building took {built:.0f} s of CPU."
    return (
        f"Measured on {day.isoformat()} by `make bench-up`, with one worker each, in an empty Debian, on two cores at "
        f"a load of {load:.0f}. Debian's own packages for Python and PostgreSQL took {system:.0f} s before. "
        f"CPU is in percent of a core, over {idle:.0f} s.{cpu}"
    )


def markdown(found: Mapping[str, Measured], text: str) -> str:
    """For a page."""
    heading, *lines = rows(found)
    table = [heading, ["---"] * len(heading), *lines]
    return "".join(f"| {' | '.join(line)} |\n" for line in table) + f"\n{text}\n"


def _seconds(value: float | None) -> str:
    return "" if value is None else f"{value:.0f} s" if value >= 10 else f"{value:.1f} s"


def _memory(each: Measured, group: str) -> str:
    return f"{each.idle.memory[group] / 1e6:.0f} MB" if each.idle and group in each.idle.memory else ""


def _cpu(each: Measured, group: str) -> str:
    return f"{each.idle.cpu[group]:.1f} %" if each.idle and group in each.idle.cpu else ""
