"""Clocks of recovery: how long after a fault each lifecycle that was in flight has moved. Pure."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tests.chaos.faults import Happened

IDLE = ("counter", "rest", "slow")
"""Lifecycles that wait for people and clocks: whether they move says nothing about recovery."""


@dataclass(frozen=True, slots=True)
class Step:
    """A transition on record; `waits` = from here on it waits for a person, or has ended."""

    at: float
    waits: bool


@dataclass(frozen=True, slots=True)
class Clock:
    """Seconds from a kind of fault until lifecycles in flight moved; `whole` until all of them had, at worst."""

    kind: str
    faults: int
    lifecycles: int
    p50: float
    p99: float
    longest: float


def clocks(happened: Sequence[Happened], trails: Mapping[tuple[str, str], Sequence[Step]]) -> list[Clock]:
    """One clock for each kind of fault.

    Args:
        trails: every transition of each lifecycle, oldest first.
    """
    waits: defaultdict[str, list[float]] = defaultdict(list)
    moving = {who: trail for who, trail in trails.items() if who[0] not in IDLE}
    for each in happened:
        for trail in moving.values():
            if (waited := _moved_after(trail, each.begun)) is not None:
                waits[each.fault.kind].append(waited)
    numbers = [each.fault.kind for each in happened]
    return [
        Clock(kind, numbers.count(kind), len(all_), _part(all_, 0.5), _part(all_, 0.99), max(all_, default=0.0))
        for kind, all_ in sorted((kind, sorted(waits[kind])) for kind in set(numbers))
    ]


def _moved_after(trail: Sequence[Step], moment: float) -> float | None:
    """Seconds from `moment` to the next transition; None if it was not in flight then, or never moved."""
    following = bisect_right(trail, moment, key=lambda step: step.at)
    if following in (0, len(trail)) or trail[following - 1].waits:
        return None
    return trail[following].at - moment


def _part(ordered: Sequence[float], part: float) -> float:
    return ordered[min(int(len(ordered) * part), len(ordered) - 1)] if ordered else 0.0
