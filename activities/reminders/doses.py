"""Steps of a patient's lifecycle: deal with the doses that are due, withdraw those that are not wanted any more."""

from __future__ import annotations

import json

import asyncpg

from activities.reminders.agenda import NotStarted, Starting, agenda, problem_with
from activities.reminders.contracts.reminders import TURN, WITHDRAW, Ahead, Turn, Withdrawal
from activities.reminders.resources import pool_of
from perdure import StepContext
from perdure.errors import InvalidEntity

_START = """
    select perdure.start('dose', x.id, x.input, priority => x.priority)
    from jsonb_to_recordset($1::jsonb) x (id text, input jsonb, priority int)"""
_NOT_START = "select reminders.not_start($1, $2::jsonb)"
_WITHDRAW = """
    select perdure.cancel('dose', x.id, $2, $3, 'withdrawn by ' || $2) from unnest($1::text[]) x (id)
    where exists (select from perdure.ident i where i.lifecycle = 'dose' and i.id = x.id)"""
_URGENT, _TOO_LATE = 2, 5
"""Priorities of starts: a dose that is too late ends unsent, so it can wait for one that is not."""


@TURN.takes
async def take_turn(turn: Turn, occasion: StepContext) -> Ahead:
    """Start each due dose once, or record why not. Returns the time of the next turn.

    The doses depend only on `turn`. A dose that was ever started is not started again.
    """
    if problem := problem_with(turn):
        return Ahead(problem=problem, upto=turn.upto)
    patient, pool = occasion.entity.id, pool_of(occasion)
    try:
        found = agenda(patient, turn)
    except InvalidEntity as error:  # such as an id that is too long: it would fail for ever
        return Ahead(problem=f"its doses can't be started: {error}", upto=turn.upto)
    if found.not_started:
        await pool.execute(_NOT_START, patient, json.dumps([_left(each) for each in found.not_started]))
    if found.starting:
        try:
            await pool.execute(_START, json.dumps([_row(each, turn) for each in found.starting]))
        except asyncpg.DataError as error:  # such as an id that is too long: it would fail for ever
            return Ahead(problem=f"its doses can't be started: {error.args[0]}", upto=turn.upto)
    return found.ahead


@WITHDRAW.takes
async def withdraw_doses(withdrawal: Withdrawal, occasion: StepContext) -> int:
    """Request the end of each unsent dose. Sent and ended doses do not change."""
    by = f"{occasion.entity.lifecycle} {occasion.entity.id}"[:180]
    await pool_of(occasion).execute(_WITHDRAW, list(withdrawal.doses), by, withdrawal.why)
    return len(withdrawal.doses)


def _left(each: NotStarted) -> dict[str, object]:
    return {"rule": each.rule, "due": f"{each.due:%Y-%m-%dT%H:%M}", "state": each.state, "why": each.why}


def _row(starting: Starting, turn: Turn) -> dict[str, object]:
    urgent = any(each.until > turn.now for each in starting.dose.openings)
    return {
        "id": starting.id,
        "input": starting.dose.model_dump(mode="json"),
        "priority": _URGENT if urgent else _TOO_LATE,
    }
