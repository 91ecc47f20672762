"""UNREADABLE: today's code can't read what is on record: the state, the input, or what made its run stand still."""

from __future__ import annotations

from perdure._reconcile.ground import Ground
from perdure._reconcile.row import Row
from perdure._store.finding_kinds import UNREADABLE
from perdure.contracts.effects import problem
from perdure.contracts.states import STARTING

_ADVICE = "Deploy code that can read it: a default for what is new, formerly= for what was renamed (docs/upgrading.md)"


async def unreadable(ground: Ground, row: Row) -> None:
    """Report it if it is so."""
    if row.is_young(ground):
        return
    what = _what(ground, row)
    if what is not None:
        await ground.findings.report(UNREADABLE, row.entity, what, _ADVICE)


def _what(ground: Ground, row: Row) -> str | None:
    lifecycle = ground.app.lifecycle(row.entity.lifecycle)
    if row.attention is not None and "can't be read: " in row.attention:
        return f"it stands still: {row.attention}"
    if row.state not in (STARTING, *lifecycle.declared.names):
        return f"it is in {row.state!r}, which {row.entity.lifecycle} does not declare"
    if row.input is None:
        return None
    try:
        lifecycle.input.validate_json(row.input)
    except (ValueError, TypeError) as error:
        return f"its input can't be read: {problem(error)}"
    return None
