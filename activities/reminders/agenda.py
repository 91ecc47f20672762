"""Computes the due doses of a patient, what happens to each, and when the next turn is. No I/O.

Whatever has changed, each time that a rule names is dealt with by the instant at which it was due: it is started, or
put on record as not started, with the reason.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from heapq import merge
from itertools import groupby
from typing import Literal

from pydantic import ValidationError

from activities.reminders.contracts.calendar.occurrences import occurrences
from activities.reminders.contracts.calendar.openings import openings
from activities.reminders.contracts.calendar.spread import spread_of
from activities.reminders.contracts.calendar.zones import instant, reads, zone_of
from activities.reminders.contracts.plan import Due, Rule, reason
from activities.reminders.contracts.reminders import LANGUAGES, Ahead, Dose, Open, Opening, Schedule, SignUp, Turn, Upto
from activities.telephony.contracts import Channel
from perdure import Entity
from perdure.encryption import Private
from perdure.errors import UnknownKey, Unopenable

AT_ONCE = 50
"""Limit of the doses that one turn starts: those of a long outage do not fit into one transaction."""
NOTED_AT_ONCE = 1000
"""Limit of the doses that one turn records as not started."""
_MINUTE = timedelta(minutes=1)
_PASSED_OVER = "the patient's clock was put past it, as by a move"
LONGEST_TEXT = 500
"""Limit of the text of a medicine, in characters, as it is read out."""


@dataclass(frozen=True, slots=True)
class Starting:
    """A dose to start.

    Attributes:
        id: `<patient>/<rule>/<local time that it is due>`.
        until: when it is over in any case.
    """

    id: str
    until: datetime
    dose: Dose


@dataclass(frozen=True, slots=True)
class NotStarted:
    """A dose that was due, and is not started. Where the same local time comes again, it still may be."""

    rule: str
    due: datetime
    state: Literal["withdrawn", "expired"]
    why: str


@dataclass(frozen=True, slots=True)
class Agenda:
    """The acts of a turn, oldest first, and the next turn."""

    starting: list[Starting]
    not_started: list[NotStarted]
    ahead: Ahead


@dataclass(frozen=True, slots=True)
class _Going:
    """When a dose that is due is started at the latest, and when it may be sent."""

    at: datetime
    openings: tuple[Opening, ...]


def problem_with(turn: Turn) -> str | None:
    """Why a turn can't be taken; None if it can. It names nothing personal.

    Raises:
        UnknownKey: this worker can't read what is sealed: another one may.
    """
    try:
        if turn.withheld is not None:
            turn.patient.schedule()
            return None
        sign_up = turn.patient.checked()
        sign_up.phone.open()
        for rule in sign_up.plan.rules:
            _told(rule, sign_up)
    except UnknownKey:
        raise
    except Unopenable as error:
        return f"what is sealed of it can't be opened: {error}"
    except ValidationError as error:
        return reason(error)
    except ValueError as error:
        return str(error)
    return None


def agenda(patient: str, turn: Turn) -> Agenda:
    """The act for each dose that was due by `turn.until`, and the time of the next turn."""
    sign_up = turn.patient.checked() if turn.withheld is None else None
    schedule = sign_up or turn.patient.schedule()
    starting: list[Starting] = []
    not_started: list[NotStarted] = []
    done, more = turn.until, False
    for at, together in groupby(_due(patient, schedule, turn), key=lambda each: each[1].at):
        if len(starting) >= AT_ONCE or (len(not_started) >= NOTED_AT_ONCE and done > turn.upto.at):
            more = True
            break
        for rule, due in together:
            if due.at + rule.window <= turn.upto.at:
                not_started.append(NotStarted(rule.id, due.local, "expired", _PASSED_OVER))
            elif sign_up is None:
                not_started.append(NotStarted(rule.id, due.local, "withdrawn", str(turn.withheld)))
            else:
                starting.append(_starting(patient, sign_up, rule, due))
        done = at
    done = done if more else turn.until
    return Agenda(
        starting,
        not_started,
        Ahead(
            started=tuple(Open(id=each.id, until=each.until) for each in starting),
            upto=Upto(at=done, local=reads(done, zone_of(schedule.zone)), zone=schedule.zone),
            more=more,
            next_at=None if more or turn.until < turn.now else _next(patient, schedule, sign_up, turn.until),
        ),
    )


def _due(patient: str, schedule: Schedule, turn: Turn) -> Iterator[tuple[Rule, Due]]:
    """The due doses that no earlier turn has processed, oldest first; found as they are asked for, because a backlog of
    years takes longer than a turn may.

    Where the patient has another clock, what it has read and the one before had not was never due before: it is now.
    That both read the same at this moment proves nothing: the new one may have been put back just before. In the first
    turn, so is what was due just before the sign-up, and had not gone yet.
    """
    upto, zone = turn.upto, zone_of(schedule.zone)
    put_past = upto.local is not None and (upto.zone != schedule.zone or reads(upto.at, zone) != upto.local)

    def by(rule: Rule) -> Iterator[tuple[Rule, Due]]:
        since = begin = turn.since.get(rule.id, upto.at)
        if rule.id not in turn.since and upto.local is None:
            begin = since - rule.spread
        elif rule.id not in turn.since and put_past and upto.local is not None:
            begin = min(since, instant(upto.local, zone) - _MINUTE)
        for due in occurrences(rule, zone, begin, turn.until):
            if due.at > since or _goes_on(patient, rule, due, upto):
                yield rule, due

    return merge(*(by(rule) for rule in schedule.plan.rules), key=lambda each: (each[1].at, each[0].id))


def _goes_on(patient: str, rule: Rule, due: Due, upto: Upto) -> bool:
    """Whether a dose that was due earlier, by the clock that the patient has now, has not been dealt with."""
    if upto.local is not None:
        return due.local > upto.local
    return due.at + spread_of(patient, rule, due) > upto.at


def _next(patient: str, schedule: Schedule, sign_up: SignUp | None, after: datetime) -> datetime | None:
    """When the next dose is to be started. Of two, the one that is due later may go sooner."""
    best: datetime | None = None
    for rule in schedule.plan.rules:
        for due in occurrences(rule, schedule.zone, after):
            if best is not None and due.at >= best:
                break
            at = due.at if sign_up is None else _going(patient, sign_up, rule, due).at
            best = at if best is None else min(best, at)
    return best


def _going(patient: str, sign_up: SignUp, rule: Rule, due: Due) -> _Going:
    """A little after it is due, and after the quiet hours, so that not all go at once; less where that leaves less
    time to send it."""
    delay = spread_of(patient, rule, due)
    found = []
    for each in openings(due.at, rule.window, sign_up.quiet_hours, sign_up.zone):
        room = min(rule.spread, each.until - each.start)
        start = each.start + (delay * (room / rule.spread) if delay else delay)
        found.append(Opening(start=start, until=each.until))
    first = found[0].start if found else due.at
    return _Going(min(first, due.at + delay), tuple(found))


def _starting(patient: str, sign_up: SignUp, rule: Rule, due: Due) -> Starting:
    first, second = (Channel.SMS, Channel.CALL) if sign_up.channel is Channel.SMS else (Channel.CALL, Channel.SMS)
    id = f"{patient}/{rule.id}/{due.local:%Y-%m-%dT%H:%M}"
    return Starting(
        id=id,
        until=due.at + rule.window,
        dose=Dose(
            to=_sealed(sign_up.phone.open(), id, "to"),
            text=_sealed(_told(rule, sign_up), id, "text"),
            language=sign_up.language,
            channels=(first, second),
            due=due.at,
            openings=_going(patient, sign_up, rule, due).openings,
            confirm=sign_up.confirm,
        ),
    )


def _sealed(text: str, dose: str, field: str) -> Private:
    """Seal the value for the dose: a value sealed for the patient does not open there."""
    return Private(text).seal(Entity("dose", dose), field)


def _told(rule: Rule, sign_up: SignUp) -> str:
    what = rule.what.open()
    if not what.strip() or not what.isprintable() or len(what) > LONGEST_TEXT:
        raise ValueError(
            f"what to take by rule {rule.id!r} must be 1 to {LONGEST_TEXT} characters that print, in one line"
        )
    return LANGUAGES[sign_up.language.partition("-")[0]].format(what=what)
