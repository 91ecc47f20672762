"""BEHIND: the open workflow has done more than the mirror shows: it is told to write its state again.

Each one that is asked costs a workflow task. So asked are those that were written since the last clean-up, or all where
somebody wants that.
"""

from __future__ import annotations

import asyncio
import time
from datetime import timedelta

from temporalio.client import WorkflowQueryFailedError
from temporalio.service import RPCError, RPCStatusCode

from perdure._reconcile.failing import report_failing
from perdure._reconcile.ground import Ground
from perdure._reconcile.row import Row
from perdure._store.finding_kinds import BEHIND
from perdure._wire.names import MIRROR
from perdure._wire.status import LifecycleStatus

_ANSWER = timedelta(seconds=10)
_FOLLOWS = 10.0
"""Seconds for which the row is watched after its workflow was told."""
_GONE = (RPCStatusCode.NOT_FOUND, RPCStatusCode.FAILED_PRECONDITION)
"""It has just closed, or just begun."""
_MUTE = (RPCStatusCode.CANCELLED, RPCStatusCode.DEADLINE_EXCEEDED)


async def behind(ground: Ground, row: Row) -> None:
    """Ask its workflow how far it is, and let it write that where the row is behind."""
    if row.is_young(ground) or (ground.asked_since is not None and row.written_at < ground.asked_since):
        return
    handle = ground.engine.get_workflow_handle(row.entity.workflow_id(ground.settings.scope))
    try:
        said: LifecycleStatus = await handle.query("status", result_type=LifecycleStatus, rpc_timeout=_ANSWER)
    except WorkflowQueryFailedError as error:
        await report_failing(ground, row, f"its code can't follow its history: {_first_line(error)}", times=0)
        return
    except RPCError as error:
        if error.status in _MUTE:  # so it is where a task fails again and again, or where no worker has time
            await report_failing(ground, row, "it gives no answer")
        elif error.status not in _GONE:
            raise
        return
    if said.round == row.entity.round and said.version > row.version:
        await _mirror_again(ground, row, said)


async def _mirror_again(ground: Ground, row: Row, said: LifecycleStatus) -> None:
    if await _version(ground, row) != row.version:
        return  # it has moved meanwhile
    workflow = ground.engine.get_workflow_handle(row.entity.workflow_id(ground.settings.scope))
    await workflow.signal(MIRROR, ground.by, rpc_timeout=_ANSWER)
    until = time.monotonic() + _FOLLOWS
    while await _version(ground, row) == row.version:
        if time.monotonic() > until:
            what = f"its workflow is in {said.state!r}, and does not write that, though it was told to"
            return await ground.findings.report(BEHIND, row.entity, what, row.command("show"))
        await asyncio.sleep(0.1)
    what = f"its workflow was in {said.state!r}, the mirror showed {row.state!r} of before: mirrored again"
    await ground.findings.mended(BEHIND, row.entity, what)


async def _version(ground: Ground, row: Row) -> int | None:
    """None: it is no open entity of that round any more."""
    entity = row.entity
    version: int | None = await ground.pool.fetchval(
        "select version from perdure.ident where lifecycle = $1 and id = $2 and round = $3 and final is null",
        *(entity.lifecycle, entity.id, entity.round),
    )
    return version


def _first_line(error: WorkflowQueryFailedError) -> str:
    """Of Temporal's own words only: an app's error may quote its data."""
    line = error.message.partition("\n")[0]
    return line[:400] if line.startswith("[TMPRL") else "its code fails"
