"""The text of a recurrence rule (RFC 5545, 3.3.10), parsed strictly into its parts, or refused with the reason.

A refusal names the part. Values that RFC 5545 forbids are refused, not ignored, as are rules that no plan needs.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final

LONGEST: Final = 500
"""Characters of a rule."""
A_DAY: Final = 48
"""Times that a rule may name in a day."""
MOST: Final = 10_000
"""The highest COUNT: every 8 hours for nine years. A rule for longer is given UNTIL."""

_WEEK = ("MO", "TU", "WE", "TH", "FR", "SA", "SU")
_RANGES: Mapping[str, tuple[int, int]] = {
    "BYMONTH": (1, 12),
    "BYYEARDAY": (-366, 366),
    "BYMONTHDAY": (-31, 31),
    "BYHOUR": (0, 23),
    "BYMINUTE": (0, 59),
    "BYSETPOS": (-366, 366),
}
# Ten years of each: a rarer rule is no plan, and would make a search long.
_INTERVALS = {"HOURLY": 87_600, "DAILY": 3_650, "WEEKLY": 520, "MONTHLY": 120, "YEARLY": 10}
_LISTS = (*_RANGES, "BYDAY", "BYSECOND")
_NOT_TAKEN = {
    "DTSTART": "it is the rule's `start`",
    "EXDATE": "it is the rule's `except_for`",
    "TZID": "the zone is the patient's",
    "RDATE": "give a rule of its own with COUNT=1",
    # dateutil takes days at the end of a year for those of a wrong week.
    "BYWEEKNO": "plans have no numbers of weeks; name days with BYYEARDAY, or BYMONTH and BYMONTHDAY",
    "EXRULE": "RFC 5545 has none; list the times in `except_for`",
}
_FORBIDDEN = (
    ("BYYEARDAY", ("DAILY", "WEEKLY", "MONTHLY"), "stands with FREQ=YEARLY or HOURLY only"),
    ("BYMONTHDAY", ("WEEKLY",), "does not stand with FREQ=WEEKLY: use FREQ=MONTHLY"),
)
_UNTIL = re.compile(r"([0-9]{8})(?:T([0-9]{6})(Z?))?")
_DAY = re.compile(r"([+-]?[0-9]{1,2})?(MO|TU|WE|TH|FR|SA|SU)")


@dataclass(frozen=True)
class Parts:
    """A rule's parts.

    Attributes:
        freq: `HOURLY`, `DAILY`, `WEEKLY`, `MONTHLY` or `YEARLY`.
        interval: every how manyth of these.
        count: number of occurrences; None without COUNT.
        until: the last at which it may be due: local if it has no offset, else UTC.
        week_start: 0 for Monday.
        by: the numbers of each BY part, in order.
        days: BYDAY: weekday, and which of the month or year (0: each).
    """

    freq: str
    interval: int = 1
    count: int | None = None
    until: datetime | None = None
    week_start: int = 0
    by: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    days: tuple[tuple[int, int], ...] = ()

    @property
    def highest_day_number(self) -> int:
        """How often a weekday can be in what BYDAY counts in: a month, or a year."""
        return 5 if self.freq == "MONTHLY" or "BYMONTH" in self.by else 53


def read_parts(text: str) -> Parts:
    """Read a rule, with or without `RRULE:` before it.

    Raises:
        ValueError: it is none, or one that is not taken; the message names the part, and what to write.
    """
    given = _split(text)
    freq = _freq(given)
    by = {name: _numbers(name, given[name]) for name in _RANGES if name in given}
    days = tuple(sorted({_day(each) for each in given["BYDAY"].split(",")})) if "BYDAY" in given else ()
    if "BYSECOND" in given:
        _check_seconds(given["BYSECOND"])
    parts = Parts(
        freq,
        _number("INTERVAL", given.get("INTERVAL", "1"), 1, _INTERVALS[freq]),
        _number("COUNT", given["COUNT"], 1, MOST) if "COUNT" in given else None,
        _until(given["UNTIL"]) if "UNTIL" in given else None,
        _week_start(given.get("WKST", "MO")),
        by,
        days,
    )
    _check_together(parts)
    return parts


def _split(text: str) -> dict[str, str]:
    """Name and value of each part, in capitals."""
    line = text.strip().upper().removeprefix("RRULE:")
    if not line:
        raise ValueError("the rule is empty: give one such as FREQ=DAILY;BYHOUR=8")
    if len(line) > LONGEST:
        raise ValueError(f"the rule has {len(line)} characters, more than {LONGEST}: make several rules of it")
    if len(line.split()) > 1:
        raise ValueError("the rule has blanks or several lines: give each rule of a plan alone, without DTSTART")
    found: dict[str, str] = {}
    for part in line.removesuffix(";").split(";"):
        name, equals, value = part.partition("=")
        name, _, _ = name.partition(":")
        if name in _NOT_TAKEN:
            raise ValueError(f"{name} does not stand in the rule: {_NOT_TAKEN[name]}")
        if not equals or not value:
            raise ValueError(f"{part[:60]!r} is no part of a rule: parts are NAME=VALUE, separated by ;")
        if name not in (*_LISTS, "FREQ", "INTERVAL", "COUNT", "UNTIL", "WKST"):
            raise ValueError(f"{name[:60]} is no part of a rule of RFC 5545: leave it out")
        if name in found:
            raise ValueError(f"{name} stands there twice: give it once, several values separated by commas")
        found[name] = value
    return found


def _freq(given: Mapping[str, str]) -> str:
    freq = given.get("FREQ")
    if freq is None:
        raise ValueError("FREQ is missing: begin with FREQ=DAILY, for example")
    if freq not in _INTERVALS:
        raise ValueError(f"FREQ={freq[:60]}: give one of {', '.join(_INTERVALS)}")
    return freq


def _number(name: str, value: str, least: int, most: int) -> int:
    """One number in these bounds; where the least is negative, 0 is none."""
    if (
        not re.fullmatch(r"[+-]?[0-9]{1,9}", value)
        or not least <= int(value) <= most
        or (least < 0 and int(value) == 0)
    ):
        without = " without 0" if least < 0 else ""
        raise ValueError(f"{name}={value[:60]}: give a whole number from {least} to {most}{without}")
    return int(value)


def _check_seconds(value: str) -> None:
    if value.strip("0"):
        raise ValueError(f"BYSECOND={value[:60]}: a plan's times are whole minutes: give 0, or leave it out")


def _numbers(name: str, values: str) -> tuple[int, ...]:
    return tuple(sorted({_number(name, each, *_RANGES[name]) for each in values.split(",")}))


def _day(value: str) -> tuple[int, int]:
    found = _DAY.fullmatch(value)
    which = int(found[1] or 0) if found else 99
    if found is None or abs(which) > 53 or (found[1] and which == 0):
        raise ValueError(f"BYDAY={value[:60]}: give days such as MO or, of a month or year, 1MO or -1FR")
    return _WEEK.index(found[2]), which


def _week_start(value: str) -> int:
    if value not in _WEEK:
        raise ValueError(f"WKST={value[:60]}: give one of {', '.join(_WEEK)}")
    return _WEEK.index(value)


def _until(value: str) -> datetime:
    """RFC 5545: inclusive. A date alone is the whole of that day."""
    if found := _UNTIL.fullmatch(value):
        try:
            until = datetime.strptime(found[1] + (found[2] or "235959"), "%Y%m%d%H%M%S")
            return until.replace(tzinfo=UTC) if found[3] else until
        except ValueError:
            pass
    raise ValueError(
        f"UNTIL={value[:60]}: give a date that exists: 20271231, 20271231T200000 (local), or 20271231T200000Z (UTC)"
    )


def _check_together(parts: Parts) -> None:
    """Check the rules of RFC 5545 about combinations of parts."""
    if parts.count is not None and parts.until is not None:
        raise ValueError("COUNT and UNTIL exclude each other: give one of them")
    for name, where, why in _FORBIDDEN:
        if name in parts.by and parts.freq in where:
            raise ValueError(f"{name} {why}")
    numbered = any(which for _, which in parts.days)
    if numbered and (parts.freq not in ("MONTHLY", "YEARLY")):
        raise ValueError("BYDAY with a number, such as 1MO, stands with FREQ=MONTHLY or YEARLY only")
    if any(abs(which) > parts.highest_day_number for _, which in parts.days):
        raise ValueError("BYDAY: no weekday is in a month more than 5 times: give numbers from 1 to 5, or -1 to -5")
    if "BYSETPOS" in parts.by and len(parts.by) == 1 and not parts.days:
        raise ValueError("BYSETPOS picks among what other BY parts name: give one of these, such as BYDAY")
    if "BYSETPOS" in parts.by and "BYMONTH" in parts.by and parts.freq == "WEEKLY":
        raise ValueError("BYSETPOS with BYMONTH in a weekly rule is not taken: name the days with BYDAY")
    if (times := _times_a_day(parts)) > A_DAY:
        raise ValueError(f"BYHOUR and BYMINUTE make {times} times a day, more than {A_DAY}: name fewer")


def _times_a_day(parts: Parts) -> int:
    hours = len(parts.by.get("BYHOUR", (0,)))
    if parts.freq == "HOURLY":
        by_interval = -(-24 // parts.interval)
        hours = min(hours, by_interval) if "BYHOUR" in parts.by else by_interval
    return hours * len(parts.by.get("BYMINUTE", (0,)))
