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

AT_ONCE = 50
"""Doses that one turn starts: what was missed in a long outage is more than fits into one transaction."""
LONGEST_TEXT = 500
"""Characters of what a patient is to take, as it is read out."""


@dataclass(frozen=True, slots=True)
class Starting:
    """A dose to start.

    Attributes:
        id: `<patient>/<rule>/<local time that it is due>`.
        goes_at: when it goes, a little after it is due where its rule says so.
        until: when it is over, whatever became of it.
    """

    id: str
    goes_at: datetime
    until: datetime
    dose: Dose


def problem_with(turn: Turn) -> str | None:
    """Why nothing can be sent to a patient; None if that can work. It names nothing personal."""
    try:
        sign_up = turn.patient.checked()
        for rule in sign_up.plan.rules:
            _told(rule, sign_up)
    except ValidationError as error:
        return reason(error)
    except ValueError as error:
        return str(error)
    return None


def agenda(patient: str, turn: Turn) -> tuple[list[Starting], Ahead]:
    """What to start now, the oldest first, and how it goes on."""
    sign_up = turn.patient.checked()
    due = sorted(_due(patient, sign_up, turn), key=lambda each: (each[1], each[0].rule))
    more, due = due[AT_ONCE:], due[:AT_ONCE]
    # Those that go at one moment go in one turn: the next one begins after it.
    while more and due[-1][1] == more[0][1]:
        due.append(more.pop(0))
    starting = [_starting(patient, sign_up, each, goes_at) for each, goes_at in due]
    nexts = () if more else (_next(patient, rule, sign_up.zone, turn) for rule in sign_up.plan.rules)
    return starting, Ahead(
        started=tuple(Open(id=each.id, until=each.until) for each in starting),
        upto=due[-1][1] if more else turn.now,
        more=bool(more),
        next_at=min((each for each in nexts if each is not None), default=None),
    )


def _due(patient: str, sign_up: SignUp, turn: Turn) -> Iterator[tuple[Due, datetime]]:
    """Every dose that goes after `upto`, and by now; with the moment at which it goes."""
    for rule in sign_up.plan.rules:
        for due in occurrences(rule, sign_up.zone, _since(rule, turn, turn.upto), turn.now):
            if turn.moved is not None and due.at + rule.window <= turn.moved:
                continue
            goes_at = due.at + spread_of(patient, rule, due)
            if turn.at_once and goes_at > turn.upto:
                goes_at = min(goes_at, turn.now)
            if turn.upto < goes_at <= turn.now:
                yield due, goes_at


def _next(patient: str, rule: Rule, zone: str, turn: Turn) -> datetime | None:
    """When the next dose of a rule goes. Of two, the one that is due later may go sooner."""
    best: datetime | None = None
    due = next_due(rule, zone, _since(rule, turn, turn.now))
    while due is not None and (best is None or due.at < best):
        goes_at = due.at + spread_of(patient, rule, due)
        if goes_at > turn.now and not (turn.at_once and due.at <= turn.now):
            best = goes_at if best is None else min(best, goes_at)
        due = next_due(rule, zone, due.at)
    return best


def _since(rule: Rule, turn: Turn, moment: datetime) -> datetime:
    """From when on what is due may go after `moment`, where the rule was in the plan then."""
    earliest = moment - rule.spread
    return max(earliest, turn.since.get(rule.id, earliest))


def _starting(patient: str, sign_up: SignUp, due: Due, goes_at: datetime) -> Starting:
    [rule] = (each for each in sign_up.plan.rules if each.id == due.rule)
    allowed = openings(due.at, rule.window, sign_up.quiet_hours, sign_up.zone)
    first, second = (Channel.SMS, Channel.CALL) if sign_up.channel is Channel.SMS else (Channel.CALL, Channel.SMS)
    return Starting(
        id=f"{patient}/{rule.id}/{due.local:%Y-%m-%dT%H:%M}",
        goes_at=goes_at,
        until=due.at + rule.window,
        dose=Dose(
            to=sign_up.phone,
            text=Private(_told(rule, sign_up)).seal(),
            language=sign_up.language,
            channels=(first, second),
            due=due.at,
            openings=tuple(
                Opening(start=max(each.start, goes_at), until=each.until) for each in allowed if each.until > goes_at
            ),
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
