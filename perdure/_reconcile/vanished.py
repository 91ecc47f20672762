"""VANISHED: an open row has no workflow, for example after the loss of Temporal. It continues from its record."""

from __future__ import annotations

from perdure._reconcile.context import Context
from perdure._reconcile.row import Row
from perdure._reconcile.writing import call
from perdure._store.finding_kinds import VANISHED


async def vanished(context: Context, row: Row, seen: str) -> None:
    """Start the entity again from its record, unless it has moved or was started meanwhile.

    Args:
        seen: Temporal's answer.
    """
    if await start_again(context, row, f"started again from its record: {seen}"):
        await context.findings.mended(VANISHED, row.entity, f"{seen}: started again from its record")


async def start_again(context: Context, row: Row, why: str) -> bool:
    """Start an entity again from its record. Returns whether this call has done so."""
    entity = row.entity
    return bool(
        await call(
            context,
            "select perdure.start_again($1, $2, $3, $4, $5, $6)",
            *(entity.lifecycle, entity.id, entity.generation, row.version, context.by, why),
        )
    )
