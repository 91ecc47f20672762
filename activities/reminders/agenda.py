"""Which doses of a patient are due, what each is told, and when the next one is: computed, nothing is touched."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

from pydantic import ValidationError

from activities.contracts.calendar.occurrences import next_due, occurrences
from activities.contracts.calendar.openings import openings
from activities.contracts.calendar.spread import spread_of
from activities.contracts.plan import Due, Rule, reason
from activities.contracts.reminders import LANGUAGES, Ahead, Dose, Open, Opening, SignUp, Turn
from activities.contracts.telephony import Channel
from perdure import Private
from perdure.errors import UnknownKey, Unopenable

AT_ONCE = 50
"""Doses that one turn starts: what was missed in a long outage is more than fits into one transaction."""
LONGEST_TEXT = 500
"""Characters of what a patient is to take, as it is read out."""


@dataclass(frozen=True, slots=True)
class Starting:
    """A dose to start.

    Attributes:
        id: `<patient>/<rule>/<local time that it is due>`.
        until: when it is over, whatever became of it.
    """

    id: str
    until: datetime
    dose: Dose


@dataclass(frozen=True, slots=True)
class _Going:
    """When a dose that is due is started, and when it may be sent."""

    rule: Rule
    due: Due
    at: datetime
    openings: tuple[Opening, ...]


def problem_with(turn: Turn) -> str | None:
    """Why nothing can be sent to a patient; None if that can work. It names nothing personal.

    Raises:
        UnknownKey: this worker can't read what is sealed: another one may.
    """
    try:
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


def agenda(patient: str, turn: Turn) -> tuple[list[Starting], Ahead]:
    """What to start now, the oldest first, and how it goes on."""
    sign_up = turn.patient.checked()
    going = sorted(_going_now(patient, sign_up, turn), key=lambda each: (each.at, each.rule.id))
    more, going = going[AT_ONCE:], going[:AT_ONCE]
    # Those that go at one moment go in one turn: the next one begins after it.
    while more and going[-1].at == more[0].at:
        going.append(more.pop(0))
    starting = [_starting(patient, sign_up, each) for each in going]
    nexts = () if more else (_next(patient, sign_up, rule, turn) for rule in sign_up.plan.rules)
    return starting, Ahead(
        started=tuple(Open(id=each.id, until=each.until) for each in starting),
        upto=going[-1].at if more else turn.now,
        more=bool(more),
        next_at=min((each for each in nexts if each is not None), default=None),
    )


def _going_now(patient: str, sign_up: SignUp, turn: Turn) -> Iterator[_Going]:
    """Every dose that is started after `upto`, and by now."""
    for rule in sign_up.plan.rules:
        for due in occurrences(rule, sign_up.zone, _since(rule, turn, turn.upto), turn.now):
            if turn.moved is not None and due.at + rule.window <= turn.moved:
                continue
            going = _going(patient, sign_up, rule, due)
            if turn.upto < going.at and (going.at <= turn.now or turn.at_once):
                yield going


def _next(patient: str, sign_up: SignUp, rule: Rule, turn: Turn) -> datetime | None:
    """When the next dose of a rule is started. Of two, the one that is due later may be started sooner."""
    best: datetime | None = None
    due = next_due(rule, sign_up.zone, _since(rule, turn, turn.now))
    while due is not None and (best is None or due.at < best):
        at = _going(patient, sign_up, rule, due).at
        if at > turn.now and not (turn.at_once and due.at <= turn.now):
            best = at if best is None else min(best, at)
        due = next_due(rule, sign_up.zone, due.at)
    return best


def _since(rule: Rule, turn: Turn, moment: datetime) -> datetime:
    """From when on what is due may be started after `moment`, where the rule was in the plan then."""
    earliest = moment - rule.spread
    return max(earliest, turn.since.get(rule.id, earliest))


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
    return _Going(rule, due, min(first, due.at + delay), tuple(found))


def _starting(patient: str, sign_up: SignUp, going: _Going) -> Starting:
    first, second = (Channel.SMS, Channel.CALL) if sign_up.channel is Channel.SMS else (Channel.CALL, Channel.SMS)
    rule, due = going.rule, going.due
    return Starting(
        id=f"{patient}/{rule.id}/{due.local:%Y-%m-%dT%H:%M}",
        until=due.at + rule.window,
        dose=Dose(
            to=sign_up.phone,
            text=Private(_told(rule, sign_up)).seal(),
            language=sign_up.language,
            channels=(first, second),
            due=due.at,
            openings=going.openings,
            confirm=sign_up.confirm,
        ),
    )


def _told(rule: Rule, sign_up: SignUp) -> str:
    what = rule.what.open()
    if not what.strip() or not what.isprintable() or len(what) > LONGEST_TEXT:
        raise ValueError(
            f"what to take by rule {rule.id!r} must be 1 to {LONGEST_TEXT} characters that print, in one line"
        )
    return LANGUAGES[sign_up.language.partition("-")[0]].format(what=what)
