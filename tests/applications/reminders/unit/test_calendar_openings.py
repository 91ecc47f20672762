"""When something may be sent: the window without the quiet hours, also where clocks change."""

from __future__ import annotations

import random
from datetime import UTC, datetime, time, timedelta
from zoneinfo import ZoneInfo

import pytest

from activities.reminders.contracts.calendar.openings import openings
from activities.reminders.contracts.plan import QuietHours
from tests.applications.reminders.calendar_oracle import MINUTE, changes

NEW_YORK, LORD_HOWE, ACCRA = "America/New_York", "Australia/Lord_Howe", "Africa/Accra"


def utc(said: str) -> datetime:
    return datetime.fromisoformat(said).replace(tzinfo=UTC)


def told(at: str, minutes: int, quiet: str | None, zone: str = ACCRA) -> list[str]:
    hours = [time.fromisoformat(each) for each in quiet.split("-")] if quiet else []
    given = QuietHours(start=hours[0], end=hours[1]) if hours else None
    found = openings(utc(at), timedelta(minutes=minutes), given, zone)
    assert all(each.start.tzinfo is UTC and each.until.tzinfo is UTC for each in found)
    return [f"{each.start:%d %H:%M}-{each.until:%d %H:%M}" for each in found]


# fmt: off
TABLE = [
    ("none", "2026-06-01T08:00", 60, None, ACCRA, ["01 08:00-01 09:00"]),
    ("by day", "2026-06-01T08:00", 60, "22:00-07:00", ACCRA, ["01 08:00-01 09:00"]),
    ("cut at its end", "2026-06-01T21:30", 60, "22:00-07:00", ACCRA, ["01 21:30-01 22:00"]),
    ("cut at its begin", "2026-06-01T06:30", 60, "22:00-07:00", ACCRA, ["01 07:00-01 07:30"]),
    ("begins as it gets quiet", "2026-06-01T22:00", 60, "22:00-07:00", ACCRA, []),
    ("ends as it gets quiet", "2026-06-01T21:00", 60, "22:00-07:00", ACCRA, ["01 21:00-01 22:00"]),
    ("begins as the quiet ends", "2026-06-01T07:00", 60, "22:00-07:00", ACCRA, ["01 07:00-01 08:00"]),
    ("ends as the quiet ends", "2026-06-01T06:00", 60, "22:00-07:00", ACCRA, []),
    ("quiet throughout", "2026-06-01T23:30", 60, "22:00-07:00", ACCRA, []),
    ("after midnight", "2026-06-01T00:30", 60, "22:00-07:00", ACCRA, []),
    ("an afternoon's rest", "2026-06-01T12:30", 180, "13:00-15:00", ACCRA, ["01 12:30-01 13:00", "01 15:00-01 15:30"]),
    ("longer than the night", "2026-06-01T20:00", 23 * 60, "22:00-07:00", ACCRA,
     ["01 20:00-01 22:00", "02 07:00-02 19:00"]),
    ("two nights", "2026-06-01T21:00", 36 * 60, "22:00-07:00", ACCRA,
     ["01 21:00-01 22:00", "02 07:00-02 22:00", "03 07:00-03 09:00"]),
    ("until midnight", "2026-06-01T19:00", 360, "20:00-00:00", ACCRA, ["01 19:00-01 20:00", "02 00:00-02 01:00"]),
    ("from midnight", "2026-06-01T23:00", 540, "00:00-07:00", ACCRA, ["01 23:00-02 00:00", "02 07:00-02 08:00"]),
    ("by the local clock", "2026-06-02T01:30", 60, "22:00-07:00", NEW_YORK, ["02 01:30-02 02:00"]),
    ("a short night", "2026-03-08T02:30", 660, "22:00-07:00", NEW_YORK, ["08 02:30-08 03:00", "08 11:00-08 13:30"]),
    ("a long night", "2026-11-01T01:30", 720, "22:00-07:00", NEW_YORK, ["01 01:30-01 02:00", "01 12:00-01 13:30"]),
    ("its end does not exist", "2026-03-08T06:00", 120, "22:00-02:30", NEW_YORK, ["08 07:00-08 08:00"]),
    ("its begin does not exist", "2026-03-08T06:00", 120, "02:30-07:00", NEW_YORK, ["08 06:00-08 07:00"]),
    ("its end exists twice", "2026-11-01T05:00", 120, "22:00-01:30", NEW_YORK, ["01 06:30-01 07:00"]),
    ("its begin exists twice", "2026-11-01T05:00", 120, "01:30-07:00", NEW_YORK, ["01 05:00-01 05:30"]),
    ("it does not exist at all", "2026-03-08T06:00", 120, "02:10-02:50", NEW_YORK, ["08 06:00-08 08:00"]),
    ("half an hour twice", "2026-04-04T14:00", 120, "22:00-01:45", LORD_HOWE, ["04 15:15-04 16:00"]),
    ("half an hour less", "2026-10-03T15:00", 60, "22:00-02:15", LORD_HOWE, ["03 15:30-03 16:00"]),
    ("a day less", "2011-12-30T08:00", 1200, "22:00-07:00", "Pacific/Apia", ["30 17:00-31 04:00"]),
]
# fmt: on


@pytest.mark.parametrize(
    ("at", "minutes", "quiet", "zone", "expected"), [row[1:] for row in TABLE], ids=[row[0] for row in TABLE]
)
def test_nothing_goes_in_the_quiet_hours_and_all_else_of_the_window_is_open(
    at: str, minutes: int, quiet: str | None, zone: str, expected: list[str]
) -> None:
    assert told(at, minutes, quiet, zone) == expected


@pytest.mark.parametrize("zone", [NEW_YORK, LORD_HOWE, "America/Havana", "Africa/Casablanca", "Antarctica/Troll"])
def test_every_minute_around_a_clock_change_is_open_if_clocks_say_so_beyond_doubt(zone: str) -> None:
    chance, place = random.Random(zone), ZoneInfo(zone)
    for near in changes(zone, 2026):
        begin, end = sorted(chance.sample(range(24 * 60), 2), reverse=chance.random() < 0.8)
        quiet = QuietHours(start=time(begin // 60, begin % 60), end=time(end // 60, end % 60))
        at = near - timedelta(hours=7) + chance.randrange(120) * MINUTE
        found = openings(at, timedelta(hours=23), quiet, zone)
        for minute in (at + number * MINUTE for number in range(23 * 60)):
            local = minute.astimezone(place)
            is_open = any(each.start <= minute < each.until for each in found)
            is_quiet = (
                (begin <= local.hour * 60 + local.minute < end)
                if begin < end
                else not (end <= local.hour * 60 + local.minute < begin)
            )
            twice = local.utcoffset() != local.replace(fold=1 - local.fold).utcoffset()
            assert is_open != is_quiet or (twice and not is_open), f"{local} with {quiet}"


def test_an_instant_needs_its_offset() -> None:
    with pytest.raises(ValueError, match="has no offset"):
        openings(datetime(2026, 6, 1), timedelta(hours=1), None, ACCRA)
