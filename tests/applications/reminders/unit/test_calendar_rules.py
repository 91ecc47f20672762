"""Which local times a rule names: tables by hand, and every day asked by a second reading of RFC 5545."""

from __future__ import annotations

import random
from datetime import datetime, timedelta

import pytest

from activities.reminders.contracts.calendar.rules import recurrence
from tests.applications.reminders.calendar_oracle import nominal, random_rule

FAR = datetime(2200, 1, 1)


def first(text: str, start: str, number: int) -> list[str]:
    found = recurrence(text, datetime.fromisoformat(start)).times(datetime(2000, 1, 1), FAR)
    return [f"{each:%m-%d %H:%M}" for each, _ in zip(found, range(number), strict=False)]


# fmt: off
TABLE = [
    ("FREQ=DAILY", "2026-02-27T08:00", ["02-27 08:00", "02-28 08:00", "03-01 08:00"]),
    ("FREQ=DAILY;INTERVAL=2", "2028-02-27T08:00", ["02-27 08:00", "02-29 08:00", "03-02 08:00"]),
    ("FREQ=DAILY;BYHOUR=20,8;BYMINUTE=30,0;COUNT=5", "2026-03-01T08:15",
     ["03-01 08:30", "03-01 20:00", "03-01 20:30", "03-02 08:00", "03-02 08:30"]),
    ("FREQ=HOURLY;INTERVAL=8", "2026-03-01T06:00", ["03-01 06:00", "03-01 14:00", "03-01 22:00", "03-02 06:00"]),
    ("FREQ=HOURLY;INTERVAL=7;BYHOUR=6,13", "2026-03-01T06:00", ["03-01 06:00", "03-01 13:00", "03-08 06:00"]),
    ("FREQ=WEEKLY;BYDAY=MO,WE,FR", "2026-03-05T08:00", ["03-06 08:00", "03-09 08:00", "03-11 08:00", "03-13 08:00"]),
    ("FREQ=WEEKLY", "2026-03-05T08:00", ["03-05 08:00", "03-12 08:00"]),
    # RFC 5545's own example: the start of the week makes the difference.
    ("FREQ=WEEKLY;INTERVAL=2;COUNT=4;BYDAY=TU,SU;WKST=MO", "2027-08-03T09:00",
     ["08-03 09:00", "08-08 09:00", "08-17 09:00", "08-22 09:00"]),
    ("FREQ=WEEKLY;INTERVAL=2;COUNT=4;BYDAY=TU,SU;WKST=SU", "2027-08-03T09:00",
     ["08-03 09:00", "08-15 09:00", "08-17 09:00", "08-29 09:00"]),
    # The first day of each week, also of the week in which it starts: not its first day that is left.
    ("FREQ=WEEKLY;BYDAY=MO,WE,FR;BYSETPOS=1", "2026-03-04T08:00", ["03-09 08:00", "03-16 08:00"]),
    ("FREQ=MONTHLY", "2026-01-31T08:00", ["01-31 08:00", "03-31 08:00", "05-31 08:00"]),
    ("FREQ=MONTHLY;BYMONTHDAY=-1", "2028-01-15T08:00", ["01-31 08:00", "02-29 08:00", "03-31 08:00", "04-30 08:00"]),
    ("FREQ=MONTHLY;BYMONTHDAY=1", "2026-03-02T08:00", ["04-01 08:00", "05-01 08:00"]),
    ("FREQ=MONTHLY;BYDAY=MO,1TU;COUNT=6", "2026-03-01T08:00",
     ["03-02 08:00", "03-03 08:00", "03-09 08:00", "03-16 08:00", "03-23 08:00", "03-30 08:00"]),
    ("FREQ=MONTHLY;BYDAY=MO,TU,WE,TH,FR;BYSETPOS=-1", "2026-01-01T08:00",
     ["01-30 08:00", "02-27 08:00", "03-31 08:00"]),
    ("FREQ=MONTHLY;BYDAY=FR;BYMONTHDAY=13", "2026-01-01T08:00", ["02-13 08:00", "03-13 08:00", "11-13 08:00"]),
    ("FREQ=YEARLY;BYMONTH=2,5", "2026-01-31T08:00", ["05-31 08:00", "05-31 08:00"]),
    ("FREQ=YEARLY;BYDAY=20MO;COUNT=1", "2027-01-01T08:00", ["05-17 08:00"]),
    ("FREQ=YEARLY;BYYEARDAY=-1,60", "2028-01-01T08:00", ["02-29 08:00", "12-31 08:00", "03-01 08:00"]),
    ("FREQ=DAILY;UNTIL=20260302", "2026-03-01T20:00", ["03-01 20:00", "03-02 20:00"]),
    ("FREQ=DAILY;UNTIL=20260302T200000", "2026-03-01T20:00", ["03-01 20:00", "03-02 20:00"]),
    ("FREQ=DAILY;UNTIL=20260302T195900", "2026-03-01T20:00", ["03-01 20:00"]),
    ("FREQ=DAILY;COUNT=2", "2026-03-01T20:00", ["03-01 20:00", "03-02 20:00"]),
]
# fmt: on


@pytest.mark.parametrize(("text", "start", "times"), TABLE, ids=[f"{text} {start}" for text, start, _ in TABLE])
def test_a_rule_names_the_times_that_rfc_5545_says(text: str, start: str, times: list[str]) -> None:
    ends = "COUNT" in text or "UNTIL" in text
    assert first(text, start, 9 if ends else len(times)) == times


def test_february_29_is_due_in_leap_years_only() -> None:
    found = recurrence("FREQ=YEARLY", datetime(2028, 2, 29, 8)).times(datetime(2000, 1, 1), datetime(2110, 1, 1))
    assert [each.year for each in found] == [*range(2028, 2100, 4), *range(2104, 2110, 4)]


@pytest.mark.parametrize("seed", range(12))
def test_every_rule_names_what_a_second_reading_of_the_rfc_finds(seed: int) -> None:
    chance = random.Random(seed)
    named = 0
    while named < 60:
        text, start = random_rule(chance), datetime(2023, 1, 1, 0, 30) + timedelta(hours=chance.randrange(20_000))
        since, until = start + timedelta(days=chance.randrange(-9, 300)), start + timedelta(days=400)
        expected = [each for each in nominal(text, start, until) if each >= since]
        assert list(recurrence(text, start).times(since, until)) == expected, f"{text} from {start} since {since}"
        named += len(expected)
