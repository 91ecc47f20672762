"""BEHIND: the open workflow has done more than the mirror shows. A signal lets it write its state again.

Each query costs a workflow task. So only the workflows that wrote since the last reconciliation are queried, or all on
request.
"""

from __future__ import annotations

import asyncio
import time
from datetime import timedelta

from temporalio.client import WorkflowQueryFailedError
from temporalio.service import RPCError, RPCStatusCode

from perdure._reconcile.context import Context
from perdure._reconcile.failing import report_failing
from perdure._reconcile.row import Row
from perdure._services.guarded import TASK_WAITS
from perdure._store.finding_kinds import BEHIND
from perdure._store.sql import shared
from perdure._wire.names import MIRROR
from perdure._wire.status import LifecycleStatus

_ANSWER = timedelta(seconds=10)
_FOLLOWS = 10.0
"""Seconds for which the row is watched after the signal."""
_GONE = (RPCStatusCode.NOT_FOUND, RPCStatusCode.FAILED_PRECONDITION)
"""The workflow has just closed, or just begun."""
_NO_ANSWER = (RPCStatusCode.CANCELLED, RPCStatusCode.DEADLINE_EXCEEDED)


async def behind(context: Context, row: Row) -> None:
    """Query the workflow for its version, and let it write its state if the row is behind."""
    if row.is_young(context) or (context.asked_since is not None and row.written_at < context.asked_since):
        return
    handle = context.temporal_client.get_workflow_handle(row.entity.workflow_id(context.settings.scope))
    try:
        status: LifecycleStatus = await handle.query("status", result_type=LifecycleStatus, rpc_timeout=_ANSWER)
    except WorkflowQueryFailedError as error:
        if error.message != TASK_WAITS:  # else the run writes its state in a moment
            await report_failing(context, row, f"its code can't follow its history: {_first_line(error)}", times=0)
        return
    except RPCError as error:
        if error.status in _NO_ANSWER:  # a task fails again and again, or no worker has time
            await report_failing(context, row, "it gives no answer")
        elif error.status not in _GONE:
            raise
        return
    if status.generation == row.entity.generation and status.version > row.version:
        await _mirror_again(context, row, status)


async def _mirror_again(context: Context, row: Row, status: LifecycleStatus) -> None:
    if await _version(context, row) != row.version:
        return  # the row has moved meanwhile
    workflow = context.temporal_client.get_workflow_handle(row.entity.workflow_id(context.settings.scope))
    await workflow.signal(MIRROR, context.by, rpc_timeout=_ANSWER)
    until = time.monotonic() + _FOLLOWS
    while await _version(context, row) == row.version:
        if time.monotonic() > until:
            what = f"its workflow is in {status.state!r}, and does not write that, though it was requested to"
            return await context.findings.report(BEHIND, row.entity, what, row.command("show"))
        await asyncio.sleep(0.1)
    what = f"its workflow was in {status.state!r}, the mirror showed {row.state!r} of before: mirrored again"
    await context.findings.mended(BEHIND, row.entity, what)


async def _version(context: Context, row: Row) -> int | None:
    """The version in the mirror; None if the entity is not open in that generation any more."""
    entity = row.entity
    known = await context.pool.fetchrow(shared("identity"), entity.lifecycle, entity.id)
    if known is None or known["generation"] != entity.generation or known["final"] is not None:
        return None
    return int(known["version"])


def _first_line(error: WorkflowQueryFailedError) -> str:
    """The first line of Temporal's own text. The text of an app's error may quote its data."""
    line = error.message.partition("\n")[0]
    return line[:400] if line.startswith("[TMPRL") else "its code fails"
