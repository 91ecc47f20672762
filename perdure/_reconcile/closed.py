"""Decides about an open row whose workflow is not listed as open, by the workflow's description in Temporal."""

from __future__ import annotations

from enum import Enum

from temporalio.client import WorkflowExecutionDescription, WorkflowExecutionStatus

from perdure._reconcile.context import Context
from perdure._reconcile.ended import ended
from perdure._reconcile.row import Row
from perdure._reconcile.unfinished import unfinished
from perdure._reconcile.vanished import vanished
from perdure._services.runs import generation_of, present_run

_OPEN = (WorkflowExecutionStatus.RUNNING, WorkflowExecutionStatus.CONTINUED_AS_NEW)


class _Generation(Enum):
    EARLIER, THIS, LATER = range(3)


async def is_open_after_all(context: Context, row: Row) -> bool:
    """Whether the workflow is open, which lists show only later. If it is not, mend or report that."""
    handle = context.temporal_client.get_workflow_handle(row.entity.workflow_id(context.settings.scope))
    seen = await present_run(handle)
    if seen is None:
        await vanished(context, row, "there is no workflow of it in Temporal")
        return False
    if seen.status in _OPEN:
        return True
    match await _compared(seen, row):
        case _Generation.EARLIER:
            await vanished(context, row, "its last workflow is of an earlier generation")
        case _Generation.THIS if seen.status is WorkflowExecutionStatus.COMPLETED:
            await unfinished(context, row, seen)
        case _Generation.THIS:
            await ended(context, row, seen)
        case _:
            pass  # the database is behind Temporal: `perdure database claim` declares what it is
    return False


async def _compared(seen: WorkflowExecutionDescription, row: Row) -> _Generation:
    generation = await generation_of(seen)
    if generation is None:  # started outside Perdure: this workflow made the row, or the row is of a later generation
        return _Generation.EARLIER if seen.close_time and seen.close_time < row.created_at else _Generation.THIS
    if generation < row.entity.generation:
        return _Generation.EARLIER
    return _Generation.THIS if generation == row.entity.generation else _Generation.LATER
