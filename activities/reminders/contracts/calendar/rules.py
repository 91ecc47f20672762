"""The nominal local times of a recurrence rule, from any time on, in bounded time.

The set of one period (an hour, a day, a week, a month, a year) is dateutil's; which periods there are is counted here:
dateutil walks from the rule's start, and to the year 9999 where it finds nothing.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime, time, timedelta
from functools import cached_property, lru_cache
from math import gcd
from typing import Any

from dateutil import rrule

from activities.reminders.contracts.calendar.parts import Parts, read_parts

_STEP = {"HOURLY": timedelta(hours=1), "DAILY": timedelta(days=1), "WEEKLY": timedelta(weeks=1)}
_PAST_THE_END = 10_000 * 12  # as an interval it makes dateutil stop after the first month or year


@dataclass(frozen=True)
class Recurrence:
    """A rule and its start, with nothing left to be taken from the start (RFC 5545: "determined from DTSTART").

    Two are equal if they are due at the same times for the same reason.
    """

    parts: Parts
    start: datetime

    def times(self, since: datetime, last: datetime) -> Iterator[datetime]:
        """Its local times from `since` to `last`, both included, in order.

        A local UNTIL and COUNT are kept; an UNTIL in UTC needs a zone, and is left to who has it.
        """
        if (until := self.parts.until) is not None and until.tzinfo is None:
            last = min(last, until)
        # COUNT counts from the start, however late the question.
        begin = self.start if self.parts.count is not None else max(since, self.start)
        found = (each for each in self._from(begin, last) if each >= self.start)
        for each in itertools.islice(found, self.parts.count):
            if each > last:
                return
            if each >= since:
                yield each

    def _from(self, begin: datetime, last: datetime) -> Iterator[datetime]:
        """From the period in which `begin` is to the one in which `last` is."""
        if self.parts.freq in _STEP:
            return self._steady(begin, last)
        return self._by_months(begin, last)

    @cached_property
    def _offsets(self) -> tuple[timedelta, ...]:
        return _offsets(self.parts)

    def _steady(self, begin: datetime, last: datetime) -> Iterator[datetime]:
        """Hours, days and weeks are alike: the set of each is the same, and whole days fit or don't."""
        step = _STEP[self.parts.freq] * self.parts.interval
        anchor = _beginning(self.start, self.parts)
        offsets = self._offsets
        hours = self.parts.by.get("BYHOUR") if self.parts.freq == "HOURLY" else None
        if hours is not None and not any((hour - anchor.hour) % gcd(self.parts.interval, 24) == 0 for hour in hours):
            return  # its steps pass these hours by
        number = max(0, (begin - anchor) // step)
        while (period := anchor + number * step) <= last:
            number += 1
            if self.parts.freq != "WEEKLY" and not _fits(period, self.parts):
                midnight = datetime.combine(period, time()) + timedelta(days=1)
                number = -((anchor - midnight) // step)
            elif hours is None or period.hour in hours:
                for offset in offsets:
                    if self.parts.freq != "WEEKLY" or _fits(period + offset, self.parts):
                        yield period + offset

    def _by_months(self, begin: datetime, last: datetime) -> Iterator[datetime]:
        """Months and years differ: dateutil makes the set of each."""
        months = self.parts.interval * (12 if self.parts.freq == "YEARLY" else 1)
        anchor = _beginning(self.start, self.parts)
        first, now = anchor.year * 12 + anchor.month - 1, begin.year * 12 + begin.month - 1
        for number in itertools.count(first + max(0, (now - first) // months) * months, months):
            period = datetime(number // 12, number % 12 + 1, 1)
            if period > last:
                return
            yield from _period(self.parts, period)


@lru_cache(maxsize=2048)
def recurrence(text: str, start: datetime) -> Recurrence:
    """Read a rule that begins at the local time `start`.

    Raises:
        ValueError: as `read_parts`.
    """
    return Recurrence(_explicit(read_parts(text), start), start)


def _explicit(parts: Parts, start: datetime) -> Parts:
    """The parts that the rule takes from its start."""
    by, days = dict(parts.by), parts.days
    by.setdefault("BYMINUTE", (start.minute,))
    if parts.freq != "HOURLY":
        by.setdefault("BYHOUR", (start.hour,))
    if parts.freq in ("WEEKLY", "MONTHLY", "YEARLY") and not days and not {"BYMONTHDAY", "BYYEARDAY"} & by.keys():
        if parts.freq == "WEEKLY":
            days = ((start.weekday(), 0),)
        else:
            by["BYMONTHDAY"] = (start.day,)
            if parts.freq == "YEARLY":
                by.setdefault("BYMONTH", (start.month,))
    return replace(parts, by=by, days=_all_numbered(days, parts.highest_day_number))


def _all_numbered(days: tuple[tuple[int, int], ...], most: int) -> tuple[tuple[int, int], ...]:
    """dateutil combines `MO` and `1TU` with *and*, RFC 5545 with *or*. A plain weekday stands for all its numbers."""
    if not any(which for _, which in days):
        return days
    return tuple(sorted({(day, each) for day, which in days for each in ((which,) if which else range(1, most + 1))}))


def _beginning(at: datetime, parts: Parts) -> datetime:
    """When the period began in which `at` is."""
    midnight = datetime.combine(at, time())
    begun = {
        "HOURLY": at.replace(minute=0),
        "DAILY": midnight,
        "WEEKLY": midnight - timedelta(days=(at.weekday() - parts.week_start) % 7),
        "MONTHLY": midnight.replace(day=1),
        "YEARLY": midnight.replace(month=1, day=1),
    }
    return begun[parts.freq]


def _offsets(parts: Parts) -> tuple[timedelta, ...]:
    """Where in its hour, day or week each time is; BYSETPOS picks among them."""
    by = parts.by
    days = [(day - parts.week_start) % 7 for day, _ in parts.days] if parts.freq == "WEEKLY" else [0]
    hours = by["BYHOUR"] if parts.freq != "HOURLY" else [0]
    found = sorted(
        timedelta(days=day, hours=hour, minutes=minute)
        for day, hour, minute in itertools.product(days, hours, by["BYMINUTE"])
    )
    if "BYSETPOS" not in by:
        return tuple(found)
    positions = {each - 1 if each > 0 else len(found) + each for each in by["BYSETPOS"]}
    return tuple(each for position, each in enumerate(found) if position in positions)


def _period(parts: Parts, period: datetime) -> list[datetime]:
    """All times in the month or year that begins at `period`, by dateutil."""
    by: dict[str, Any] = {name.lower(): values for name, values in parts.by.items()}
    if parts.days:
        by["byweekday"] = [rrule.weekday(day, which or None) for day, which in parts.days]
    monthly = parts.freq == "MONTHLY"
    return list(rrule.rrule(rrule.MONTHLY if monthly else rrule.YEARLY, period, interval=_PAST_THE_END, **by))


def _fits(day: datetime, parts: Parts) -> bool:
    """Whether the parts that limit whole days let this one in."""
    by = parts.by
    if "BYMONTH" in by and day.month not in by["BYMONTH"]:
        return False
    if "BYMONTHDAY" in by and not {day.day, day.day - _month_days(day) - 1} & set(by["BYMONTHDAY"]):
        return False
    if "BYYEARDAY" in by:
        of_year = day.timetuple().tm_yday
        length = datetime(day.year, 12, 31).timetuple().tm_yday
        if not {of_year, of_year - length - 1} & set(by["BYYEARDAY"]):
            return False
    return not parts.days or (day.weekday(), 0) in parts.days


def _month_days(day: datetime) -> int:
    following = day.replace(day=28) + timedelta(days=4)
    return (following - timedelta(days=following.day)).day
