"""What clocks read, and when they read it for the first time: from `zoneinfo` asked in UTC, and nothing else.

It shares nothing with `activities.reminders.contracts.calendar`: no local time is ever given a zone, so neither `fold`
nor gaps have to be understood. A clock is looked at every six hours, and minute by minute where its offset changes.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import NamedTuple
from zoneinfo import ZoneInfo

QUARTER, MINUTE = timedelta(hours=6), timedelta(minutes=1)


class Stretch(NamedTuple):
    """A time in which a clock runs evenly: from `start` until before `end`, in UTC without an offset."""

    start: datetime
    end: datetime
    ahead: timedelta


@lru_cache(maxsize=4096)
def _year(zone: str, year: int) -> tuple[Stretch, ...]:
    place = ZoneInfo(zone)

    def ahead(at: datetime) -> timedelta:
        found = at.replace(tzinfo=UTC).astimezone(place).utcoffset()
        assert found is not None
        return found

    begin, end = datetime(year, 1, 1), datetime(year + 1, 1, 1)
    found, start, now = [], begin, ahead(begin)
    for quarter in range((end - begin) // QUARTER):
        at = begin + quarter * QUARTER
        if ahead(at + QUARTER) != now:
            minute = next(at + n * MINUTE for n in range(1, 361) if ahead(at + n * MINUTE) != now)
            found.append(Stretch(start, minute, now))
            start, now = minute, ahead(minute)
    if start < end:
        found.append(Stretch(start, end, now))
    return tuple(found)


def reads(zone: str, at: datetime) -> datetime:
    """What a clock reads at an instant (UTC, without an offset)."""
    return next(at + each.ahead for each in _year(zone, at.year) if each.start <= at < each.end)


def first_reads(zone: str, local: datetime) -> datetime:
    """The first instant at which a clock reads `local` or later: a time that is left out comes when the next does."""
    for year in range((local - timedelta(days=3)).year, local.year + 2):
        for each in _year(zone, year):
            if local < each.end + each.ahead:
                return max(each.start, local - each.ahead)
    raise AssertionError(f"no clock in {zone} reads {local}")


def changes(zone: str, year: int) -> list[datetime]:
    """The instants at which the clock is changed."""
    return [one.end for one, _ in zip(_year(zone, year), _year(zone, year)[1:], strict=False)]
