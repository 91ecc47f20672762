"""VANISHED: an open row without a workflow anywhere, as after the loss of Temporal: it goes on from its record."""

from __future__ import annotations

from perdure._reconcile.context import Context
from perdure._reconcile.row import Row
from perdure._reconcile.writing import call
from perdure._store.finding_kinds import VANISHED


async def vanished(context: Context, row: Row, seen: str) -> None:
    """Start it again from its record, unless it moved meanwhile or somebody else has.

    Args:
        seen: what Temporal said.
    """
    if await start_again(context, row, f"started again from its record: {seen}"):
        await context.findings.mended(VANISHED, row.entity, f"{seen}: started again from its record")


async def start_again(context: Context, row: Row, why: str) -> bool:
    """Whether it is on its way now by this call."""
    entity = row.entity
    return bool(
        await call(
            context,
            "select perdure.start_again($1, $2, $3, $4, $5, $6)",
            *(entity.lifecycle, entity.id, entity.generation, row.version, context.by, why),
        )
    )
