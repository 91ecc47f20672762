"""A rule is due at the right instants: odd clock changes by hand, all others minute by minute."""

from __future__ import annotations

import itertools
import random
import time as clock
from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from activities.reminders.contracts.calendar.occurrences import next_due, occurrences
from activities.reminders.contracts.calendar.zones import instant, last_instant
from activities.reminders.contracts.plan import Due, Rule
from tests.applications.reminders.calendar_oracle import Clock, changes

NEW_YORK, LORD_HOWE, ACCRA = "America/New_York", "Australia/Lord_Howe", "Africa/Accra"


def a_rule(rule: str = "FREQ=DAILY", start: str = "2011-01-01T08:00", **given: Any) -> Rule:
    return Rule.model_validate({"id": "r", "rule": rule, "start": start, "what": "x"} | given)


def utc(said: str) -> datetime:
    return datetime.fromisoformat(said).replace(tzinfo=UTC)


def told(found: Any) -> list[str]:
    """Local time as the rule names it, and the instant."""
    return [f"{due.local:%d %H:%M} {due.at:%d %H:%M}Z" for due in found]


def at(*times: str) -> str:
    hours, minutes = {each[:2] for each in times}, {each[3:] for each in times}
    return f"FREQ=DAILY;BYHOUR={','.join(sorted(hours))};BYMINUTE={','.join(sorted(minutes))}"


# fmt: off
CHANGES = [
    (NEW_YORK, at("08:00"), "2026-03-07T06:00", "2026-03-09T18:00",
     ["07 08:00 07 13:00Z", "08 08:00 08 12:00Z", "09 08:00 09 12:00Z"]),
    (NEW_YORK, at("08:00"), "2026-10-31T06:00", "2026-11-02T18:00",
     ["31 08:00 31 12:00Z", "01 08:00 01 13:00Z", "02 08:00 02 13:00Z"]),
    (NEW_YORK, at("02:30"), "2026-03-07T06:00", "2026-03-09T18:00",
     ["07 02:30 07 07:30Z", "08 02:30 08 07:00Z", "09 02:30 09 06:30Z"]),
    (NEW_YORK, at("01:30"), "2026-10-31T04:00", "2026-11-02T18:00",
     ["31 01:30 31 05:30Z", "01 01:30 01 05:30Z", "02 01:30 02 06:30Z"]),
    (NEW_YORK, "FREQ=HOURLY", "2026-03-08T05:30", "2026-03-08T08:30",
     ["08 01:00 08 06:00Z", "08 03:00 08 07:00Z", "08 04:00 08 08:00Z"]),
    (NEW_YORK, "FREQ=HOURLY", "2026-11-01T04:30", "2026-11-01T07:30", ["01 01:00 01 05:00Z", "01 02:00 01 07:00Z"]),
    (NEW_YORK, at("02:15", "02:45"), "2026-03-08T05:30", "2026-03-08T12:30", ["08 02:15 08 07:00Z"]),
    (ACCRA, at("08:00"), "2026-03-28T06:00", "2026-03-30T18:00",
     ["28 08:00 28 08:00Z", "29 08:00 29 08:00Z", "30 08:00 30 08:00Z"]),
    # Half an hour forward at 02:00 in October, back at 02:00 in April: 11:00 and 10:30 before UTC.
    (LORD_HOWE, at("08:00"), "2026-04-03T12:00", "2026-04-05T12:00", ["04 08:00 03 21:00Z", "05 08:00 04 21:30Z"]),
    (LORD_HOWE, at("01:45"), "2026-04-03T12:00", "2026-04-05T18:00",
     ["04 01:45 03 14:45Z", "05 01:45 04 14:45Z", "06 01:45 05 15:15Z"]),
    (LORD_HOWE, at("02:15"), "2026-10-02T12:00", "2026-10-04T18:00",
     ["03 02:15 02 15:45Z", "04 02:15 03 15:30Z", "05 02:15 04 15:15Z"]),
    (LORD_HOWE, at("02:00", "02:30"), "2026-10-03T12:00", "2026-10-03T18:00", ["04 02:30 03 15:30Z"]),
    # A day that Samoa left out: of what was due then, the first goes when the next one begins.
    ("Pacific/Apia", at("08:00"), "2011-12-29T00:00", "2011-12-31T00:00",
     ["29 08:00 29 18:00Z", "30 08:00 30 10:00Z", "31 08:00 30 18:00Z"]),
    ("Pacific/Apia", "FREQ=HOURLY;INTERVAL=8", "2011-12-30T09:00", "2011-12-30T19:00",
     ["31 00:00 30 10:00Z", "31 08:00 30 18:00Z"]),
    # Ireland's winter time is the exception by law, Morocco's is that of Ramadan.
    ("Europe/Dublin", at("01:30"), "2026-03-28T00:00", "2026-03-30T12:00",
     ["28 01:30 28 01:30Z", "29 01:30 29 01:00Z", "30 01:30 30 00:30Z"]),
    ("Africa/Casablanca", at("02:30"), "2024-03-09T00:00", "2024-03-11T12:00",
     ["09 02:30 09 01:30Z", "10 02:30 10 01:30Z", "11 02:30 11 02:30Z"]),
    ("Africa/Casablanca", at("02:30"), "2024-04-13T00:00", "2024-04-15T12:00",
     ["13 02:30 13 02:30Z", "14 02:30 14 02:00Z", "15 02:30 15 01:30Z"]),
    ("America/St_Johns", at("02:30"), "2026-03-07T12:00", "2026-03-09T12:00",
     ["08 02:30 08 05:30Z", "09 02:30 09 05:00Z"]),
    ("Asia/Kathmandu", at("08:00"), "2026-03-07T12:00", "2026-03-08T12:00", ["08 08:00 08 02:15Z"]),
    ("Antarctica/Troll", at("02:30"), "2026-03-28T12:00", "2026-03-30T12:00",
     ["29 02:30 29 01:00Z", "30 02:30 30 00:30Z"]),
]
# fmt: on


@pytest.mark.parametrize(("zone", "rule", "after", "until", "expected"), CHANGES)
def test_a_clock_change_moves_no_local_time_and_loses_and_doubles_none(
    zone: str, rule: str, after: str, until: str, expected: list[str]
) -> None:
    started = a_rule(rule, "2011-01-01T00:00")
    assert told(occurrences(started, zone, utc(after), utc(until))) == expected


def test_a_time_that_exists_is_kept_rather_than_one_that_is_moved_to_it() -> None:
    [one] = occurrences(a_rule(at("02:00", "03:00")), NEW_YORK, utc("2026-03-08T05:00"), utc("2026-03-08T12:00"))
    assert one == Due("r", datetime(2026, 3, 8, 3), utc("2026-03-08T07:00"))


def random_changes(number: int) -> list[tuple[str, datetime]]:
    chance = random.Random(number)
    zones = (
        NEW_YORK,
        LORD_HOWE,
        "Africa/Casablanca",
        "Antarctica/Troll",
        "America/Havana",
        "Africa/Cairo",
        "Asia/Gaza",
    )
    return [(zone, chance.choice(changes(zone, chance.randrange(2023, 2030)))) for zone in zones]


@pytest.mark.parametrize(
    ("zone", "near"), [*random_changes(1), ("Pacific/Apia", utc("2011-12-30T06:00"))], ids=lambda given: str(given)[:20]
)
def test_around_a_clock_change_each_time_is_when_a_clock_first_reads_it_or_more(zone: str, near: datetime) -> None:
    chance = random.Random(str(near))
    clocks = Clock(zone, near - timedelta(hours=30), 66 * 60)
    rule = a_rule("FREQ=HOURLY;BYMINUTE=" + ",".join(str(each) for each in chance.sample(range(60), 2)))
    after, until = near - timedelta(hours=2), near + timedelta(hours=14)
    by_instant: dict[datetime, list[datetime]] = {}
    for local in rule.recurrence.times(clocks.reads[0], clocks.reads[-1] - timedelta(hours=1)):
        if after < (first := clocks.first(local)) <= until:
            by_instant.setdefault(first, []).append(local)
    shown = dict(zip(clocks.minutes, clocks.reads, strict=True))
    expected = [
        Due("r", shown[first] if shown[first] in locals_ else locals_[0], first)
        for first, locals_ in sorted(by_instant.items())
    ]
    assert list(occurrences(rule, zone, after, until)) == expected


def test_after_is_left_out_and_until_is_not() -> None:
    day = timedelta(days=1)
    eight = utc("2026-06-01T12:00")
    assert told(occurrences(a_rule(), NEW_YORK, eight, eight + day)) == ["02 08:00 02 12:00Z"]
    assert told(occurrences(a_rule(), NEW_YORK, eight - timedelta(microseconds=1), eight)) == ["01 08:00 01 12:00Z"]
    assert told(occurrences(a_rule(), NEW_YORK, eight, eight + day - timedelta(microseconds=1))) == []


def test_nothing_is_due_before_the_start_or_when_its_clock_has_passed_it() -> None:
    rule = a_rule(start="2026-06-01T08:00")
    assert next_due(rule, ACCRA, utc("2000-01-01T00:00")) == Due("r", datetime(2026, 6, 1, 8), utc("2026-06-01T08:00"))
    late = a_rule("FREQ=DAILY;BYHOUR=7", start="2026-06-01T08:00")
    assert told([next_due(late, ACCRA, utc("2026-01-01T00:00"))]) == ["02 07:00 02 07:00Z"]


def test_count_counts_from_the_start_however_late_one_asks_and_also_what_is_left_out() -> None:
    rule = a_rule("FREQ=DAILY;COUNT=5", "2026-06-01T08:00", except_for=["2026-06-04T08:00"])
    assert told(occurrences(rule, ACCRA, utc("2026-06-02T12:00"))) == ["03 08:00 03 08:00Z", "05 08:00 05 08:00Z"]
    assert next_due(rule, ACCRA, utc("2026-06-05T08:00")) is None


@pytest.mark.parametrize(
    ("until", "zone", "last"),
    [
        ("20260603T080000", NEW_YORK, "03 08:00 03 12:00Z"),
        ("20260603", NEW_YORK, "03 08:00 03 12:00Z"),
        ("20260603T120000Z", NEW_YORK, "03 08:00 03 12:00Z"),
        ("20260603T115959Z", NEW_YORK, "02 08:00 02 12:00Z"),
        ("20260602T220000Z", "Pacific/Auckland", "03 08:00 02 20:00Z"),
        ("20260603T080000", "Pacific/Auckland", "03 08:00 02 20:00Z"),
    ],
)
def test_until_is_the_last_moment_in_the_patients_zone(until: str, zone: str, last: str) -> None:
    rule = a_rule(f"FREQ=DAILY;UNTIL={until}", "2026-06-01T08:00")
    assert told(occurrences(rule, zone, utc("2026-05-01T00:00")))[-1] == last


def test_a_rule_with_an_until_in_utc_may_be_due_in_one_zone_and_through_in_another() -> None:
    rule = a_rule("FREQ=DAILY;UNTIL=20260601T000000Z", "2026-06-01T08:00")
    assert next_due(rule, "Pacific/Auckland", utc("2026-05-01T00:00")) is not None
    assert next_due(rule, NEW_YORK, utc("2026-05-01T00:00")) is None


def test_in_another_zone_the_same_local_time_is_another_instant_and_keeps_its_name() -> None:
    one, other = (next_due(a_rule(), zone, utc("2026-06-01T00:00")) for zone in (NEW_YORK, LORD_HOWE))
    assert one is not None
    assert other is not None
    assert (one.at, other.at) == (utc("2026-06-01T12:00"), utc("2026-06-01T21:30"))
    assert (one.local, other.local) == (datetime(2026, 6, 1, 8), datetime(2026, 6, 2, 8))


def test_a_zone_may_be_given_as_such_and_an_instant_only_with_its_offset() -> None:
    after = utc("2026-06-01T00:00")
    assert next_due(a_rule(), ZoneInfo(NEW_YORK), after) == next_due(a_rule(), NEW_YORK, after)
    with pytest.raises(ValueError, match="has no offset"):
        next_due(a_rule(), NEW_YORK, datetime(2026, 6, 1))
    with pytest.raises(ValueError, match="did you mean America/New_York"):
        next_due(a_rule(), "America/NewYork", after)


def test_a_time_that_exists_twice_has_a_first_and_a_last_instant() -> None:
    half_past_one, zone = datetime(2026, 11, 1, 1, 30), ZoneInfo(NEW_YORK)
    assert instant(half_past_one, zone) == utc("2026-11-01T05:30")
    assert last_instant(half_past_one, zone) == utc("2026-11-01T06:30")


@pytest.mark.parametrize("text", ["FREQ=DAILY", "FREQ=DAILY;COUNT=9000", "FREQ=HOURLY", "FREQ=MONTHLY;BYDAY=MO,-1FR"])
def test_a_rule_that_began_ten_years_ago_is_answered_in_milliseconds(text: str) -> None:
    rule, now = a_rule(text, "2016-03-01T08:00"), utc("2026-03-01T18:00")

    def ask() -> float:
        begin = clock.thread_time()
        assert next_due(rule, NEW_YORK, now) is not None
        return clock.thread_time() - begin

    assert min(ask() for _ in range(3)) < (0.02 if "COUNT" in text else 0.002)


@pytest.mark.parametrize("zone", [NEW_YORK, LORD_HOWE, "Europe/Berlin", "Europe/Dublin", "Africa/Casablanca"])
def test_looked_at_in_pieces_nothing_is_left_out_on_the_days_of_a_change(zone: str) -> None:
    """A lifecycle asks again and again for what came due since it asked last."""
    often = a_rule("FREQ=DAILY;BYHOUR=" + ",".join(map(str, range(24))) + ";BYMINUTE=0,30", "2026-01-01T00:00")
    for changed in changes(zone, 2026):
        begin, end = changed - timedelta(hours=12), changed + timedelta(hours=12)
        whole = list(occurrences(often, zone, begin, end))
        for minutes in (7, 35, 70, 100):
            cuts = [begin + timedelta(minutes=minutes) * number for number in range(24 * 60 // minutes + 2)]
            pieces = [due for one, other in itertools.pairwise(cuts) for due in occurrences(often, zone, one, other)]
            assert [due for due in pieces if due.at <= end] == whole
