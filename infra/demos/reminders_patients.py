"""The patients of `make demo-reminders`: fifty in eight zones, what happens to them, and which doses that makes.

Which doses those are is computed here anew, from local times alone: what the lifecycles started is compared with it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, time, timedelta
from typing import Any
from zoneinfo import ZoneInfo

NEW_YORK = "America/New_York"
ZONES = {
    "Pacific/Auckland": "en",
    "Asia/Tokyo": "en",
    "Asia/Kolkata": "en-IN",
    "Europe/Berlin": "de",
    "Africa/Accra": "en-GH",
    "America/Sao_Paulo": "pt-BR",
    NEW_YORK: "en-US",
    "America/Los_Angeles": "es-US",
}
"""With the language that is spoken to the patients there."""
OUTAGE = time(7, 40), timedelta(hours=2)
"""When the provider is away, by the clock of New York, and for how long."""
NO_MOBILE, WRONG, NO_ANSWER = "+15005550009", "+15005550001", "+15005556002"
"""Numbers with a meaning to the provider's stand-in."""
LOST, UNREPORTED, LOST_FOR_GOOD = "lost", "lost, unreported", "lost for good"
"""What goes wrong: the answer, after the request was accepted; or that, and all callbacks; or both while the provider
goes away."""
_MORNING, _NOON, _EVENING = "08:00", "12:30", "20:00"
_SIGNS_OFF = "06:40", {"signed_off": True}, "signs off, while the dose of 06:15 waits for the quiet hours to end"
_PAUSES = "12:00", {"paused": True}, "pauses"
_MOVES = "12:00", {"zone": NEW_YORK}, "is in New York from now on"


@dataclass(frozen=True)
class Patient:
    """One row of `reminders.patient`, and what is to be seen of it.

    Attributes:
        times: local times, each of them a rule.
        window: minutes in which a dose is of use.
        story: what is special about this one.
        fault: what goes wrong with the request of the first dose.
        change: local time, columns of the row, and how to call it.
    """

    id: str
    zone: str
    times: tuple[str, ...]
    phone: str
    channel: str = "sms"
    quiet: tuple[str, str] | None = ("22:00", "07:00")
    confirm: bool = False
    window: int = 60
    story: str = ""
    fault: str = ""
    change: tuple[str, dict[str, Any], str] | None = None

    def row(self, day: date) -> dict[str, Any]:
        """Its columns."""
        return {
            "id": self.id,
            "zone": self.zone,
            "phone": self.phone,
            "channel": self.channel,
            "language": ZONES[self.zone],
            "quiet_hours": json.dumps(dict(zip(("start", "end"), self.quiet, strict=True))) if self.quiet else None,
            "confirm": self.confirm,
            "plan": json.dumps({"rules": [_rule(each, day, self.window) for each in self.times]}),
        }


@dataclass(frozen=True)
class Expected:
    """A dose that has to be on record.

    Attributes:
        due, zone: when and where it is due.
        rests: until when it waits for the end of the quiet hours, or for being withdrawn.
        until: from then on it is of no use.
        fault: what goes wrong with its first request.
        moved: whether its patient lived in another zone before.
    """

    id: str
    due: datetime
    zone: str
    rests: datetime
    until: datetime
    fault: str = ""
    moved: bool = False


@dataclass(frozen=True)
class Change:
    """What the app writes into a patient's row, and when."""

    at: datetime
    patient: str
    columns: dict[str, Any]
    note: str


@dataclass(frozen=True)
class Day:
    """Everything that is to happen.

    Attributes:
        date: on which New York changes its clocks.
        patients, changes: who, and what becomes of them.
        doses: all that come due.
        outage: from when until when the provider is away.
    """

    date: date
    patients: list[Patient]
    changes: list[Change]
    doses: list[Expected]
    outage: tuple[datetime, datetime]

    @property
    def begins(self) -> datetime:
        """Before the day begins anywhere."""
        return instant(self.date, "00:00", "Pacific/Auckland") - timedelta(hours=1)


def the_day(count: int, now: datetime) -> Day:
    """A day after `now` for so many patients: those with a story first."""
    day = next_change_of_clocks(now)
    special = [replace(each, id=f"patient-{n:02}") for n, each in enumerate(_special(), 1)]
    patients = [*special, *_ordinary(len(special), count)][:count]
    changes = sorted(_changes(day, patients), key=lambda each: each.at)
    begin = instant(day, OUTAGE[0].isoformat("minutes"), NEW_YORK)
    doses = sorted(_doses(day, patients, changes), key=lambda each: each.due)
    return Day(day, patients, changes, doses, (begin, begin + OUTAGE[1]))


def next_change_of_clocks(now: datetime) -> date:
    """The next day, three from now at the earliest, on which New York changes its clocks."""
    day = now.date() + timedelta(days=3)
    while _offset(day) == _offset(day + timedelta(days=1)):
        day += timedelta(days=1)
    return day


def instant(day: date, at: str, zone: str) -> datetime:
    """When it is so late there: the first time, and where clocks leave it out, as they have."""
    local = datetime.combine(day, time.fromisoformat(at), ZoneInfo(zone))
    found = local.astimezone(UTC)
    if found.astimezone(ZoneInfo(zone)).replace(tzinfo=None) != local.replace(tzinfo=None):
        return datetime.combine(day, time(local.hour + 1), ZoneInfo(zone)).astimezone(UTC)
    return found


def _special() -> Iterator[Patient]:
    def one(zone: str, *times: str, story: str, **more: Any) -> Patient:
        return Patient("", zone, times, more.pop("phone", "+12025550100"), story=story, **more)

    yield one(NEW_YORK, "01:30", "02:30", quiet=None, story="awake while the clocks change")
    yield one(NEW_YORK, "07:40", window=20, story="its answer is lost with the provider", fault=LOST_FOR_GOOD)
    yield one(NEW_YORK, _MORNING, _EVENING, window=20, story="due in the outage")
    yield one(NEW_YORK, "09:30", _EVENING, channel="call", story="due towards the end of the outage")
    yield one("Europe/Berlin", "06:30", "21:30", "23:30", story="early, late, and too late for the quiet hours")
    yield one("Europe/Berlin", _MORNING, _EVENING, phone=NO_MOBILE, story="a landline that refuses text messages")
    yield one("Africa/Accra", _MORNING, _EVENING, phone=WRONG, story="a wrong number")
    yield one("Africa/Accra", "06:15", _EVENING, story="signs off while a dose waits", change=_SIGNS_OFF)
    yield one("Asia/Tokyo", _MORNING, _EVENING, channel="call", phone="0202 5550", story="a bad record")
    yield one("Asia/Kolkata", _MORNING, _EVENING, story="pauses at noon", change=_PAUSES)
    yield one("Europe/Berlin", _MORNING, _EVENING, story="flies from Berlin to New York", change=_MOVES)
    yield one("Asia/Tokyo", "09:10", channel="call", phone=NO_ANSWER, confirm=True, story="does not answer the call")
    yield one("Asia/Tokyo", "09:25", story="its answer and all callbacks are lost", fault=UNREPORTED)
    yield one("Asia/Tokyo", "09:30", channel="call", story="the answer of its call is lost", fault=LOST)


def _ordinary(begun: int, count: int) -> Iterator[Patient]:
    for number in range(begun + 1, count + 1):
        zone = list(ZONES)[number % len(ZONES)]
        times: tuple[str, ...] = (_MORNING, _NOON, _EVENING) if number % 3 == 0 else (_MORNING, _EVENING)
        if zone == NEW_YORK:
            times = times[1:]  # the outage has enough of them
        yield Patient(
            f"patient-{number:02}", zone, times, f"+120255501{number:02}", "call" if number % 4 == 0 else "sms"
        )


def _changes(day: date, patients: list[Patient]) -> Iterator[Change]:
    for patient in patients:
        if patient.change is not None:
            at, columns, note = patient.change
            yield Change(instant(day, at, patient.zone), patient.id, columns, note)


def _doses(day: date, patients: list[Patient], changes: list[Change]) -> Iterator[Expected]:
    changed = {each.patient: each for each in changes}
    for patient in patients:
        if not patient.phone.startswith("+"):
            continue
        change = changed.get(patient.id)
        for at in patient.times:
            zone = patient.zone
            if change is not None and instant(day, at, zone) > change.at:
                if "zone" not in change.columns:
                    continue
                zone = change.columns["zone"]
            due = instant(day, at, zone)
            rests = _rests(due, patient, zone)
            if change is not None and change.at < rests:
                rests = change.at
            id = f"{patient.id}/{_id(at)}/{day}T{at}"
            until = due + timedelta(minutes=patient.window)
            yield Expected(id, due, zone, max(rests, due), until, patient.fault, moved=zone != patient.zone)


def _rests(due: datetime, patient: Patient, zone: str) -> datetime:
    """Until the quiet hours end within its window, if they do."""
    if patient.quiet is None:
        return due
    start, end = (time.fromisoformat(each) for each in patient.quiet)
    moments = [due + timedelta(minutes=n) for n in range(patient.window)]
    awake = [each for each in moments if end <= each.astimezone(ZoneInfo(zone)).time() < start]
    return awake[0] if awake else due


def _rule(at: str, day: date, window: int) -> dict[str, str]:
    return {
        "id": _id(at),
        "rule": f"FREQ=DAILY;UNTIL={day:%Y%m%d}",
        "start": f"{day}T{at}",
        "what": "Metformin 500 mg",
        "window": f"PT{window}M",
    }


def _id(at: str) -> str:
    return "at-" + at.replace(":", "")


def _offset(day: date) -> timedelta | None:
    return datetime.combine(day, time(), ZoneInfo(NEW_YORK)).utcoffset()
