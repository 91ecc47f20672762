"""Who is reminded of what, when, and what must become of it: good patients and bad records, a function of the seed."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from itertools import count
from typing import Any
from zoneinfo import ZoneInfo

from activities.reminders.contracts.calendar.spread import spread_of
from activities.reminders.contracts.plan import Due, Rule
from perdure.encryption import Private
from tests.applications.reminders.chaos.bad_records import BAD, MEDICINE, Bad

ZONES = ("Africa/Accra", "America/Phoenix", "Asia/Kathmandu", "Asia/Kolkata", "Pacific/Kiritimati")
"""Whose clocks are not changed, on whatever day this runs."""
NO_MOBILE, NO_NUMBER = "+15005550009", "+15005550001"
UNDELIVERED = "+15005556001"
_MINUTE = timedelta(minutes=1)


class Kind(StrEnum):
    """What is special about a good patient, and how many there are of a hundred."""

    TEXTED = "texted"
    CALLED = "called"
    BRIEF = "brief"
    """Its window is so short that a doubt may outlast it."""
    TWO = "two"
    """Two drugs at the same time."""
    QUIET = "quiet"
    """All of its window lies in the quiet hours."""
    WOKEN = "woken"
    """The quiet hours end within its window."""
    LANDLINE = "landline"
    """A text message is refused, a call is not."""
    UNDELIVERED = "undelivered"
    """A text message is accepted and never arrives, which the patient's record asks to be waited for."""
    NOBODY = "nobody"
    """No telephone has this number."""


SHARES = {
    Kind.TEXTED: 48,
    Kind.CALLED: 24,
    Kind.BRIEF: 8,
    Kind.TWO: 6,
    Kind.QUIET: 3,
    Kind.WOKEN: 4,
    Kind.LANDLINE: 3,
    Kind.UNDELIVERED: 1,
    Kind.NOBODY: 3,
}


@dataclass(frozen=True, slots=True)
class Moment:
    """When all of them are due.

    Attributes:
        due: the whole minute that their plans name, in UTC.
        begin, end: between these the doses go; `end` is the end of the spread.
        window: of use for so long after `end`, as a rule; `brief`: of those that have a short window.
        wakes: whether there are quiet hours: they end, and what can't go in them ends, at whole minutes.
        callbacks: whether the provider reports.
    """

    due: datetime
    begin: datetime
    end: datetime
    window: timedelta
    brief: timedelta
    wakes: bool
    callbacks: bool

    @property
    def spread(self) -> timedelta:
        """Of each rule."""
        return self.end - self.due


@dataclass(frozen=True, slots=True)
class DoseToCome:
    """One dose: it may be sent from `opens` until before `until`; both are equal where it never may."""

    id: str
    opens: datetime
    until: datetime


@dataclass(frozen=True, slots=True)
class Patient:
    """One patient.

    Attributes:
        given: as a row has it, but for the id.
        bad: what is wrong with the record; None = nothing.
    """

    id: str
    kind: str
    given: Any
    phone: str
    doses: tuple[DoseToCome, ...] = ()
    bad: Bad | None = None


def make_patients(seed: int, number: int, bad: float, moment: Moment) -> list[Patient]:
    """The patients of a seed, in the order in which they sign up.

    Args:
        number: how many, bad records included.
        bad: share of bad records; there is one of each kind at least.
    """
    luck = random.Random(f"patients {seed}")
    wrong = max(round(number * bad), len(BAD))
    kinds = [kind for kind in SHARES if moment.wakes or kind not in (Kind.WOKEN, Kind.QUIET)]
    if not moment.callbacks:
        kinds.remove(Kind.UNDELIVERED)
    weights = [SHARES[kind] for kind in kinds]
    chosen = [*kinds, *luck.choices(kinds, weights, k=max(number - wrong - len(kinds), 0))]
    patients = [_patient(luck, each, kind, moment) for each, kind in enumerate(chosen)]
    records = [*BAD.values()]
    for each in range(wrong):
        patients.append(_bad(luck, len(chosen) + each, records[each % len(records)], moment))
    luck.shuffle(patients)
    return patients


def _patient(luck: random.Random, number: int, kind: Kind, moment: Moment) -> Patient:
    id, phone, zone = f"patient-{number}", _phone(number, kind), luck.choice(ZONES)
    window = _window(kind, moment)
    wakes, quiet = _night(kind, moment, zone)
    rules, doses = [], []
    for rule, goes_at in _rules(luck, id, moment, zone, window, 2 if kind is Kind.TWO else 1):
        rules.append(rule.model_dump(mode="json"))
        until = moment.due + window
        dose = f"{id}/{rule.id}/{rule.start:%Y-%m-%dT%H:%M}"
        doses.append(DoseToCome(dose, until if kind is Kind.QUIET else wakes + (goes_at - moment.due), until))
    given = {
        "plan": {"rules": rules},
        "zone": zone,
        "phone": phone,
        "channel": "call" if kind is Kind.CALLED else "sms",
        "language": luck.choice(("en", "es", "fr-CA", "pt-BR")),
        "quiet_hours": quiet,
        "confirm": kind is Kind.UNDELIVERED,
    }
    return Patient(id, kind, given, phone, tuple(doses))


def _window(kind: Kind, moment: Moment) -> timedelta:
    if kind in (Kind.BRIEF, Kind.UNDELIVERED):
        return moment.spread + moment.brief
    if kind is Kind.LANDLINE or (kind is Kind.CALLED and not moment.callbacks):
        # A call in doubt may wait for the end of it: none can tell it apart.
        return moment.spread + max(moment.window / 4, moment.brief)
    return moment.spread + moment.window


def _night(kind: Kind, moment: Moment, zone: str) -> tuple[datetime, dict[str, str] | None]:
    """From when on it may be sent, and the quiet hours."""
    evening = moment.due - 60 * _MINUTE
    if kind is Kind.QUIET:
        return moment.due, _quiet(evening, moment.due + _window(kind, moment) + 60 * _MINUTE, zone)
    if kind is Kind.WOKEN:
        wakes = moment.due + 2 * _MINUTE
        return wakes, _quiet(evening, wakes, zone)
    return moment.due, None


def _bad(luck: random.Random, number: int, bad: Bad, moment: Moment) -> Patient:
    good = _patient(luck, number, Kind.TEXTED, moment)
    id = good.id.ljust(bad.id_length, "x")
    if bad.id_length:  # its doses are due at another moment than those of the shorter id
        rule = Rule.model_validate(good.given["plan"]["rules"][0])
        chosen, _ = next(_rules(luck, id, moment, good.given["zone"], rule.window, 1))
        good.given["plan"]["rules"] = [chosen.model_dump(mode="json")]
    given = bad.spoil(good.given)
    phone = given.get("phone", "") if isinstance(given, dict) else ""
    return Patient(id, bad.what, given, good.phone if phone == good.phone else "", bad=bad)


def _rules(
    luck: random.Random, patient: str, moment: Moment, zone: str, window: timedelta, number: int
) -> Iterator[tuple[Rule, datetime]]:
    """Rules, and when their doses go: between `begin` and `end`, for which their ids are chosen."""
    start = moment.due.astimezone(ZoneInfo(zone)).replace(tzinfo=None)
    rule = Rule(
        id="any",
        rule=luck.choice(("FREQ=DAILY;COUNT=1", "FREQ=WEEKLY;COUNT=1", "FREQ=MONTHLY;COUNT=1")),
        start=start,
        what=Private(f"{MEDICINE} {luck.randrange(1, 9)} mg"),
        window=window,
        spread=moment.spread,
    )
    for each in count():
        named = rule.model_copy(update={"id": f"rule-{each}"})
        goes_at = moment.due + spread_of(patient, named, Due(named.id, start, moment.due))
        if goes_at >= moment.begin:
            yield named, goes_at
            number -= 1
        if not number:
            return


def _quiet(start: datetime, end: datetime, zone: str) -> dict[str, str]:
    local = (each.astimezone(ZoneInfo(zone)) for each in (start, end + _MINUTE if end.second else end))
    return dict(zip(("start", "end"), (f"{each:%H:%M}" for each in local), strict=True))


def _phone(number: int, kind: Kind) -> str:
    shared = {Kind.LANDLINE: NO_MOBILE, Kind.NOBODY: NO_NUMBER, Kind.UNDELIVERED: UNDELIVERED}
    return shared.get(kind, f"+1415{2_000_000 + number}")
