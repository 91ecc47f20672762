"""UNFINISHED: the workflow closed normally, and the mirror shows it as open. Its final state is mirrored."""

from __future__ import annotations

from datetime import timedelta

from temporalio.client import WorkflowExecutionDescription, WorkflowQueryFailedError
from temporalio.service import RPCError, RPCStatusCode

from perdure._reconcile.context import Context
from perdure._reconcile.row import Row
from perdure._reconcile.writing import call
from perdure._services.runs import carried_by
from perdure._store.finding_kinds import UNFINISHED
from perdure._store.sql import queries
from perdure._wire.status import LifecycleStatus
from perdure._wire.writes import Answer, Gate, Move, Write

query = queries(__name__)

_ANSWER = timedelta(seconds=10)
_NO_ANSWER = {
    RPCStatusCode.NOT_FOUND: "its history is gone",
    RPCStatusCode.CANCELLED: "no worker answers",
    RPCStatusCode.DEADLINE_EXCEEDED: "no worker answers",
}


async def unfinished(context: Context, row: Row, seen: WorkflowExecutionDescription) -> None:
    """Mirror the final state of the closed workflow."""
    handle = context.temporal_client.get_workflow_handle(seen.id, run_id=seen.run_id)
    try:
        status: LifecycleStatus = await handle.query("status", result_type=LifecycleStatus, rpc_timeout=_ANSWER)
    except WorkflowQueryFailedError:
        await _report(context, row, "its workflow has ended, and today's code can't follow its history to show how")
    except RPCError as error:
        if error.status not in _NO_ANSWER:
            raise
        await _report(context, row, f"its workflow has ended, and can't be queried: {_NO_ANSWER[error.status]}")
    else:
        if not status.final:
            await _report(context, row, f"its workflow has ended in {status.state!r}, which is not final today")
        elif await _write(context, row, seen, status):
            await context.findings.mended(UNFINISHED, row.entity, f"its workflow has ended as {status.state}: mirrored")


async def _write(context: Context, row: Row, seen: WorkflowExecutionDescription, status: LifecycleStatus) -> bool:
    carried = await carried_by(seen)
    write = Write(
        lifecycle=row.entity.lifecycle,
        id=row.entity.id,
        generation=row.entity.generation,
        version=max(status.version, row.version) + 1,  # after the run's own end, if that has come meanwhile
        workflow_id=seen.id,
        born=None if carried is None else carried.born,
        move=Move(state=status.state, final=True, why="its workflow ended so: mirrored again", by=context.by),
    )
    batch = f"[{write.model_dump_json(exclude_none=True)}]"
    answer = await call(context, query("mirror_end"), row.entity.lifecycle, row.entity.id, batch)
    return answer is not None and Answer.model_validate_json(answer).gate is Gate.OPEN


async def _report(context: Context, row: Row, what: str) -> None:
    retry = row.command("retry", "--by", "YOU")
    advice = f"Look up whether its effects happened, then let it go on from its record: {retry}"
    await context.findings.report(UNFINISHED, row.entity, what, advice)
