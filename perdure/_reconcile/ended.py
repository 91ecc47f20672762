"""ENDED: the workflow failed, timed out, was terminated or cancelled, and its row is open. What then is done says the
lifecycle: `if_ended`."""

from __future__ import annotations

from temporalio.client import WorkflowExecutionDescription

from perdure._reconcile.failures import how_it_closed
from perdure._reconcile.ground import Ground
from perdure._reconcile.recovery.closed import HOW_IT_CLOSED
from perdure._reconcile.row import Row
from perdure._reconcile.vanished import start_again
from perdure._reconcile.writing import call
from perdure._store.finding_kinds import ENDED
from perdure._store.sql import queries

query = queries(__name__)


async def ended(ground: Ground, row: Row, seen: WorkflowExecutionDescription) -> None:
    """Start it again from its record, or let it want a person."""
    assert seen.status is not None
    handle = ground.engine.get_workflow_handle(seen.id, run_id=seen.run_id)
    said = await how_it_closed(handle, ground.engine.data_converter)
    what = f"its workflow {HOW_IT_CLOSED.get(seen.status, seen.status.name.lower())}" + (f": {said}" if said else "")
    again = ground.app.lifecycle(row.entity.lifecycle).if_ended == "again"
    lately = again and await _was_started_again(ground, row, seen.run_id)
    if again and not lately:
        if await start_again(ground, row, f"started again from its record: {what}"):
            about = seen.run_id
            await ground.findings.mended(ENDED, row.entity, f"{what}; started again from its record", about=about)
        return
    if lately:
        what += "; it was started again lately for the same reason"
    if row.attention is None and not await _want_person(ground, row, what):
        return  # it moved meanwhile
    advice = f"Find out why, then let it go on from its record: {row.command('retry', '--by', 'YOU')}"
    await ground.findings.report(ENDED, row.entity, what, advice)


async def _was_started_again(ground: Ground, row: Row, run_id: str) -> bool:
    """Once a day is enough: what ends again and again is a person's."""
    entity = row.entity
    return bool(await ground.pool.fetchval(query("started_again_lately"), entity.lifecycle, entity.id, run_id))


async def _want_person(ground: Ground, row: Row, what: str) -> bool:
    entity = row.entity
    return bool(
        await call(
            ground,
            "select perdure.want_person($1, $2, $3, $4, $5, $6)",
            *(entity.lifecycle, entity.id, entity.round, row.version, what[:2000], ground.by),
        )
    )
