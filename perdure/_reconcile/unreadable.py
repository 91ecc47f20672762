"""UNREADABLE: today's code cannot read the record: the state, the input, or the data that made the run stand still."""

from __future__ import annotations

from perdure._reconcile.context import Context
from perdure._reconcile.row import Row
from perdure._store.finding_kinds import UNREADABLE
from perdure.contracts.effects import first_problem
from perdure.contracts.states import STARTING

_ADVICE = (
    "Deploy code that can read it: a default for what is new, aliases= for what was renamed (`perdure help upgrading`)"
)


async def unreadable(context: Context, row: Row) -> None:
    """Report the entity if its record is unreadable."""
    if row.is_young(context):
        return
    what = _what(context, row)
    if what is not None:
        await context.findings.report(UNREADABLE, row.entity, what, _ADVICE)


def _what(context: Context, row: Row) -> str | None:
    lifecycle = context.app.lifecycle(row.entity.lifecycle)
    if row.attention is not None and "can't be read: " in row.attention:
        return f"it stands still: {row.attention}"
    if row.state not in (STARTING, *lifecycle.declared.names):
        return f"it is in {row.state!r}, which {row.entity.lifecycle} does not declare"
    if row.input is None:
        return None
    try:
        lifecycle.input.validate_json(row.input)
    except (ValueError, TypeError) as error:
        return f"its input can't be read: {first_problem(error)}"
    return None
