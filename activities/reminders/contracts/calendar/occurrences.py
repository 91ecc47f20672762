"""When a rule is due, as instants: each local time that the rule names, placed in the patient's zone.

08:00 stays 08:00 when clocks change. A time that exists twice goes once, the first time. One that does not exist goes
when the gap ends, and only once if another of the rule goes then as well.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final
from zoneinfo import ZoneInfo

from activities.reminders.contracts.calendar.zones import instant, reads, zone_of
from activities.reminders.contracts.plan import HORIZON, Due, Rule

_BACK: Final = timedelta(days=1)
"""More than clocks have ever gone back at once."""


def occurrences(rule: Rule, zone: ZoneInfo | str, after: datetime, until: datetime | None = None) -> Iterator[Due]:
    """When `rule` is due later than `after` and not later than `until`, in order of time; found as they are asked for.

    Args:
        rule: the rule.
        zone: the patient's zone, or its IANA name.
        after, until: instants, with an offset. Without `until`: ten years from `after` or, if later, its start.

    Raises:
        ValueError: there is no such zone, or an instant has no offset.
    """
    place = zone_of(zone) if isinstance(zone, str) else zone
    last = max(_aware(after), instant(rule.start, place)) + HORIZON if until is None else _aware(until)
    return _between(rule, place, _aware(after), last)


def next_due(rule: Rule, zone: ZoneInfo | str, after: datetime) -> Due | None:
    """When `rule` is due next, later than `after`; None if it is through: not due in the ten years that follow.

    Raises:
        ValueError: as `occurrences`.
    """
    return next(occurrences(rule, zone, after), None)


def _between(rule: Rule, zone: ZoneInfo, after: datetime, until: datetime) -> Iterator[Due]:
    pending: _Placed | None = None
    for placed in _placed(rule, zone, after, until):
        if pending is None or placed.due.at != pending.due.at:
            if pending is not None:
                yield pending.due
            pending = placed
        elif placed.exists:  # of several that go at one instant the one that does exist, else the first
            pending = placed
    if pending is not None:
        yield pending.due


@dataclass(frozen=True)
class _Placed:
    due: Due
    exists: bool


def _placed(rule: Rule, zone: ZoneInfo, after: datetime, until: datetime) -> Iterator[_Placed]:
    """Every time that the rule names between these instants, also those that fall on one instant.

    A later local time is never at an earlier instant, so it is enough to begin with what a clock reads at `after`. To
    stop at what it reads at `until` is too early: once clocks have gone back, they read less than they did before.
    """
    found = rule.recurrence
    omitted = set(rule.except_for)
    if (end := found.parts.until) is not None and end.tzinfo is not None:
        until = min(until, end)
    for local in found.times(reads(after, zone), reads(until, zone) + _BACK):
        at = instant(local, zone)
        if after < at <= until and local not in omitted:
            yield _Placed(Due(rule.id, local, at), reads(at, zone) == local)


def _aware(at: datetime) -> datetime:
    if at.tzinfo is None:
        raise ValueError(f"{at.isoformat()} has no offset: give an instant, such as {at.isoformat()}+00:00")
    return at
