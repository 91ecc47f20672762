"""A year of reminders on the time-skipping server, through both changes of the clocks: when each of them went.

`YEAR=daily` in the environment makes it each day of the year, twice; that takes minutes, so also say `--timeout 900`.
"""

from __future__ import annotations

import os
from collections import Counter
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

from tests.applications.reminders.conftest import a_plan
from tests.applications.reminders.skipping import DAY, Skipping

ZONES = {"ny": "America/New_York", "accra": "Africa/Accra", "lord": "Australia/Lord_Howe"}
GAP, TWICE = "02:15", "01:45"
"""Local times: one that is missing once a year in New York and on Lord Howe Island, and one that comes twice."""
DAILY = os.environ.get("YEAR") == "daily"
SUNDAYS = "FREQ=DAILY;BYMONTH={months}" if DAILY else "FREQ=MONTHLY;BYDAY=1SU,2SU;BYMONTH={months}"
"""Clocks change on the first or the second Sunday of March, April, October or November."""
RULES = {
    ("gap", GAP): range(1, 13) if DAILY else (3, 4, 10, 11),
    ("twice", TWICE): range(1, 13) if DAILY else (4, 11),
}


async def test_a_year_of_local_times_in_three_zones(skipping: Skipping) -> None:
    year = await skipping.new_year()
    for patient, zone in ZONES.items():
        await skipping.sign_up(patient, the_plan(year), zone)
    await keep(skipping, year)

    for patient, zone in ZONES.items():
        went, expected = await skipping.sent(patient, zone), due_in(year, zone)
        assert [f"{each:%Y-%m-%d %H:%M}" for each in went] == [f"{each:%Y-%m-%d %H:%M}" for each in expected]
        assert all(timedelta(0) <= at - due < timedelta(seconds=50) for at, due in zip(went, expected, strict=True))
    changed = {patient: odd(year, zone) for patient, zone in ZONES.items()}
    assert changed == {"ny": (["03:00"], 1), "accra": ([], 0), "lord": (["02:30"], 1)}, "what the year is to show"
    assert set(skipping.clinic.telephony.references.values()) == {1}
    assert len(skipping.clinic.telephony.accepted) == sum(len(due_in(year, zone)) for zone in ZONES.values())
    for patient in ZONES:
        lengths = await skipping.lengths(patient)
        assert len(lengths) > 1, "it went on in a new run on its way"
        assert max(lengths) < 400, lengths


async def keep(skipping: Skipping, year: int) -> None:
    """Go from dose to dose, in the order in which they are due anywhere."""
    counts = Counter[str]()
    for due, patient in sorted((due, patient) for patient, zone in ZONES.items() for due in due_in(year, zone)):
        counts[patient] += 1
        await skipping.to(due)
        await skipping.over(patient, counts[patient])


def the_plan(year: int) -> object:
    """The same for all."""
    return a_plan(
        *(
            {
                "id": id,
                "rule": f"{SUNDAYS.format(months=','.join(str(month) for month in months))};UNTIL={year}1231T235959",
                "start": f"{year}-01-01T{at}",
            }
            for (id, at), months in RULES.items()
        )
    )


def due_in(year: int, zone: str) -> list[datetime]:
    """When they are to go: at the local time, the first of two; where there is none, at the next minute that is."""
    return sorted(there(local, zone) for local in named(year))


def named(year: int) -> list[datetime]:
    """The local times that the plan names."""
    days = [datetime(year, 1, 1) + DAY * number for number in range(366)]
    return [
        datetime.combine(day, datetime.strptime(at, "%H:%M").time())
        for (_, at), months in RULES.items()
        for day in days
        if day.year == year and day.month in months and (DAILY or (day.weekday() == 6 and day.day <= 14))
    ]


def there(local: datetime, zone: str) -> datetime:
    """The instant of a local time."""
    while not exists(at := local.replace(tzinfo=ZoneInfo(zone))):
        local += timedelta(minutes=1)
    return at


def exists(at: datetime) -> bool:
    """Whether a clock ever shows it."""
    return at.astimezone(UTC).astimezone(at.tzinfo).replace(tzinfo=None) == at.replace(tzinfo=None)


def odd(year: int, zone: str) -> tuple[list[str], int]:
    """The times that are not those of the plan; and how many of its times come twice."""
    times = [(local, there(local, zone)) for local in named(year)]
    moved = [f"{at:%H:%M}" for local, at in times if at.replace(tzinfo=None) != local]
    return moved, sum(at.utcoffset() != at.replace(fold=1).utcoffset() for _, at in times)
