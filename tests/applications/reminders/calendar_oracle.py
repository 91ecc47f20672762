"""RFC 5545 and the zone database once more, slowly: every day is asked whether it fits, every minute what clocks read.

Nothing of it is shared with the code that is tested, nor with dateutil.
"""

from __future__ import annotations

import bisect
import calendar
import itertools
import random
from datetime import UTC, date, datetime, time, timedelta
from functools import lru_cache
from zoneinfo import ZoneInfo

DAY, MINUTE = timedelta(days=1), timedelta(minutes=1)
WEEK = ("MO", "TU", "WE", "TH", "FR", "SA", "SU")


def random_rule(chance: random.Random) -> str:
    """A rule, mostly one that is due; never one that RFC 5545 forbids."""
    freq = chance.choice(("HOURLY", "DAILY", "WEEKLY", "MONTHLY", "YEARLY"))
    parts = {"FREQ": freq, "INTERVAL": str(chance.choice((1, 1, 2, 3, 5)))}
    may = {
        "HOURLY": ("BYMONTH", "BYMONTHDAY", "BYYEARDAY", "BYDAY", "BYHOUR"),
        "DAILY": ("BYMONTH", "BYMONTHDAY", "BYDAY", "BYHOUR"),
        "WEEKLY": ("BYMONTH", "BYDAY", "BYHOUR"),
        "MONTHLY": ("BYMONTH", "BYMONTHDAY", "BYDAY", "BYHOUR"),
        "YEARLY": ("BYMONTH", "BYMONTHDAY", "BYYEARDAY", "BYDAY", "BYHOUR"),
    }[freq]
    chosen = chance.sample(may, chance.randint(0, min(3, len(may))))
    for name in sorted(chosen):
        parts[name] = _values(name, freq, "BYMONTH" in chosen, chance)
    if chance.random() < 0.4:
        parts["WKST"] = chance.choice(WEEK)
    if chosen and chance.random() < 0.2 and not (freq == "WEEKLY" and "BYMONTH" in chosen):
        parts["BYSETPOS"] = ",".join(str(each) for each in chance.sample((-3, -2, -1, 1, 2, 3), 2))
    if chance.random() < 0.3:
        parts["COUNT"] = str(chance.randint(1, 9))
    return ";".join(f"{name}={value}" for name, value in parts.items())


def _values(name: str, freq: str, of_month: bool, chance: random.Random) -> str:
    if name == "BYDAY":
        most = 5 if of_month or freq == "MONTHLY" else 53
        numbered = freq in ("MONTHLY", "YEARLY")
        some = [chance.choice((0, chance.randint(1, most), -chance.randint(1, most))) * numbered for _ in range(3)]
        return ",".join(f"{each or ''}{chance.choice(WEEK)}" for each in some)
    least, most = {
        "BYMONTH": (1, 12),
        "BYMONTHDAY": (-31, 31),
        "BYYEARDAY": (-366, 366),
        "BYHOUR": (0, 23),
    }[name]
    values = [each for each in range(least, most + 1) if each or name == "BYHOUR"]
    return ",".join(str(each) for each in chance.sample(values, {"BYYEARDAY": 60, "BYMONTHDAY": 9}.get(name, 4)))


def nominal(rule: str, start: datetime, until: datetime) -> list[datetime]:
    """The local times that the rule names up to `until`."""
    parts = dict(part.split("=") for part in rule.split(";"))
    numbers = {
        name: [int(each) for each in value.split(",")]
        for name, value in parts.items()
        if name.startswith("BY") and name != "BYDAY"
    }
    found: list[datetime] = []
    first = date(start.year, 1, 1) - 7 * DAY
    days = [first + number * DAY for number in range((date(until.year, 12, 31) - first).days + 8)]
    freq, week_start = parts["FREQ"], WEEK.index(parts.get("WKST", "MO"))
    periods: dict[int, list[datetime]] = {}
    for day in days:
        if _fits(day, parts, numbers, start):
            for hour in range(24) if freq == "HOURLY" else numbers.get("BYHOUR", [start.hour]):
                at = datetime.combine(day, time(hour, start.minute))
                if freq != "HOURLY" or hour in numbers.get("BYHOUR", [hour]):
                    periods.setdefault(_period(at, freq, week_start), []).append(at)
    begin, step = _period(start, freq, week_start), int(parts.get("INTERVAL", "1"))
    for number in sorted(periods):
        if number >= begin and (number - begin) % step == 0:
            times = sorted(set(periods[number]))
            places = {place - 1 if place > 0 else len(times) + place for place in numbers.get("BYSETPOS", [])}
            found += [each for place, each in enumerate(times) if not places or place in places]
    counted = itertools.islice((each for each in found if each >= start), int(parts.get("COUNT", 10**6)))
    return [each for each in counted if each <= until]


def _period(at: datetime, freq: str, week_start: int) -> int:
    return {
        "HOURLY": at.toordinal() * 24 + at.hour,
        "DAILY": at.toordinal(),
        "WEEKLY": (at.toordinal() - 1 - week_start) // 7,
        "MONTHLY": at.year * 12 + at.month,
        "YEARLY": at.year,
    }[freq]


def _fits(day: date, parts: dict[str, str], numbers: dict[str, list[int]], start: datetime) -> bool:
    freq = parts["FREQ"]
    month_days = calendar.monthrange(day.year, day.month)[1]
    year_days = 366 if calendar.isleap(day.year) else 365
    of_year = (day - date(day.year, 1, 1)).days + 1
    asked = {
        "BYMONTH": {day.month},
        "BYMONTHDAY": {day.day, day.day - month_days - 1},
        "BYYEARDAY": {of_year, of_year - year_days - 1},
    }
    if any(name in numbers and not asked[name] & set(numbers[name]) for name in asked):
        return False
    if "BYDAY" in parts:
        return _is_day(day, parts["BYDAY"].split(","), freq == "MONTHLY" or "BYMONTH" in numbers, month_days, year_days)
    if "BYMONTHDAY" in numbers or "BYYEARDAY" in numbers or freq in ("HOURLY", "DAILY"):
        return True
    if freq == "WEEKLY":
        return day.weekday() == start.weekday()
    return day.day == start.day and (freq == "MONTHLY" or "BYMONTH" in numbers or day.month == start.month)


def _is_day(day: date, wanted: list[str], of_month: bool, month_days: int, year_days: int) -> bool:
    place, length = (day.day, month_days) if of_month else ((day - date(day.year, 1, 1)).days + 1, year_days)
    name = WEEK[day.weekday()]
    return bool({name, f"{(place - 1) // 7 + 1}{name}", f"-{(length - place) // 7 + 1}{name}"} & set(wanted))


class Clock:
    """What clocks in a zone read, minute by minute."""

    def __init__(self, zone: str, begin: datetime, minutes: int) -> None:
        place = ZoneInfo(zone)
        self.minutes = [begin + number * MINUTE for number in range(minutes)]
        self.reads = [each.astimezone(place).replace(tzinfo=None, fold=0) for each in self.minutes]
        self._so_far = list(itertools.accumulate(self.reads, max))

    def first(self, local: datetime) -> datetime:
        """The first minute at which a clock reads `local` or later."""
        return self.minutes[bisect.bisect_left(self._so_far, local)]


@lru_cache
def changes(zone: str, year: int) -> tuple[datetime, ...]:
    """The hours of a year after which a zone's offset is another."""
    place = ZoneInfo(zone)
    hours = [datetime(year, 1, 1, tzinfo=UTC) + number * timedelta(hours=6) for number in range(366 * 4)]
    offsets = [each.astimezone(place).utcoffset() for each in hours]
    return tuple(hour for hour, one, other in zip(hours, offsets, offsets[1:], strict=False) if one != other)
