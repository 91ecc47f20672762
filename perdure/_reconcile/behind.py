"""BEHIND: the open workflow has done more than the mirror shows, or something else. A signal lets it write its state
again.

Each query costs a workflow task. So only the workflows that wrote since the last reconciliation are queried, and those
that need a person for an effect although none is in doubt, or all on request.
"""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from datetime import timedelta

from temporalio.client import WorkflowQueryFailedError
from temporalio.service import RPCError, RPCStatusCode

from perdure._reconcile.context import Context
from perdure._reconcile.failing import report_failing
from perdure._reconcile.row import Row
from perdure._services.guarded import TASK_WAITS
from perdure._store.finding_kinds import BEHIND
from perdure._store.parked import is_of_an_effect
from perdure._store.sql import shared
from perdure._wire.names import MIRROR
from perdure._wire.status import LifecycleStatus
from perdure.contracts.states import STARTING

_ANSWER = timedelta(seconds=10)
_FOLLOWS = 10.0
"""Seconds for which the row is watched after the signal."""
_GONE = (RPCStatusCode.NOT_FOUND, RPCStatusCode.FAILED_PRECONDITION)
"""The workflow has just closed, or just begun."""
_NO_ANSWER = (RPCStatusCode.CANCELLED, RPCStatusCode.DEADLINE_EXCEEDED)


async def behind(context: Context, row: Row) -> None:
    """Query the workflow for its state, and let it write that if the row shows another one."""
    if row.is_young(context) or not _may_differ(context, row):
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
    states = context.app.lifecycle(row.entity.lifecycle).declared
    is_known = row.state in (STARTING, *states.names)
    shown = Shown(states.today(row.state) if is_known else None, row.attention, row.version)
    if status.generation == row.entity.generation and shown.differs_from(status):
        await _mirror_again(context, row, status)


def _may_differ(context: Context, row: Row) -> bool:
    written = context.asked_since is None or row.written_at >= context.asked_since
    return written or (is_of_an_effect(row.attention) and not row.doubts)


@dataclass(frozen=True)
class Shown:
    """What the mirror shows of an open entity.

    Attributes:
        state: today's name of the state; None = no state is declared by its name, which is reported elsewhere.
        attention: why a person is needed.
        version: of the newest write.
    """

    state: str | None
    attention: str | None
    version: int

    def differs_from(self, status: LifecycleStatus) -> bool:
        """Whether the workflow has to write its state again."""
        if status.version > self.version:
            return True
        if any(not each.parked for each in status.effects):
            return False  # an attempt may have entered a state, and the run does not know that yet
        if status.attention is None and is_of_an_effect(self.attention):
            return True
        return self.state not in (None, status.state) or (status.attention is not None and self.attention is None)


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
    shown = repr(row.state)
    if (row.attention is None) != (status.attention is None):
        shown += f", and that {'a' if row.attention else 'no'} person was needed"
    what = f"its workflow was in {status.state!r}, the mirror showed {shown}: mirrored again"
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
