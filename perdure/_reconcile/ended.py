"""ENDED: the workflow failed, timed out, was terminated or cancelled, and its row is open. The lifecycle's `if_ended`
decides what happens next."""

from __future__ import annotations

from temporalio.client import WorkflowExecutionDescription

from perdure._reconcile.context import Context
from perdure._reconcile.failures import how_it_closed
from perdure._reconcile.recovery.closed import HOW_IT_CLOSED
from perdure._reconcile.row import Row
from perdure._reconcile.vanished import start_again
from perdure._reconcile.writing import call
from perdure._store.finding_kinds import ENDED
from perdure._store.sql import queries

query = queries(__name__)


async def ended(context: Context, row: Row, seen: WorkflowExecutionDescription) -> None:
    """Start the entity again from its record, or note that it needs a person."""
    assert seen.status is not None
    handle = context.temporal_client.get_workflow_handle(seen.id, run_id=seen.run_id)
    why = await how_it_closed(handle, context.temporal_client.data_converter)
    what = f"its workflow {HOW_IT_CLOSED.get(seen.status, seen.status.name.lower())}" + (f": {why}" if why else "")
    again = context.app.lifecycle(row.entity.lifecycle).if_ended == "again"
    lately = again and await _was_started_again(context, row, seen.run_id)
    if again and not lately:
        if await start_again(context, row, f"started again from its record: {what}"):
            about = seen.run_id
            await context.findings.mended(ENDED, row.entity, f"{what}; started again from its record", about=about)
        return
    if lately:
        what += "; it was started again lately for the same reason"
    if row.attention is None and not await _need_person(context, row, what):
        return  # the row has moved meanwhile
    advice = f"Find out why, then let it go on from its record: {row.command('retry', '--by', 'YOU')}"
    await context.findings.report(ENDED, row.entity, what, advice)


async def _was_started_again(context: Context, row: Row, run_id: str) -> bool:
    """Whether the entity was started again within a day. A second end in that time needs a person."""
    entity = row.entity
    return bool(await context.pool.fetchval(query("started_again_lately"), entity.lifecycle, entity.id, run_id))


async def _need_person(context: Context, row: Row, what: str) -> bool:
    entity = row.entity
    return bool(
        await call(
            context,
            "select perdure.need_person($1, $2, $3, $4, $5, $6)",
            *(entity.lifecycle, entity.id, entity.generation, row.version, what[:2000], context.by),
        )
    )
