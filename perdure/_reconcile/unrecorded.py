"""UNRECORDED, OUTLIVED: open workflows whose record is missing or has no input, or whose entity is finished.

Visibility gives hints: `describe` confirms each workflow, and a signal lets it mirror its state again. The run writes
the row anew, or ends if its entity is over. A run that does neither needs a person.
"""

from __future__ import annotations

import asyncio
import base64
import shlex
import time
from collections.abc import Awaitable, Sequence
from dataclasses import dataclass
from datetime import timedelta

import asyncpg
from temporalio.client import WorkflowExecution, WorkflowExecutionDescription, WorkflowExecutionStatus, WorkflowHandle
from temporalio.service import RPCError, RPCStatusCode

from perdure._reconcile.context import Context
from perdure._reconcile.writing import fetch
from perdure._services.runs import generation_of, present_run
from perdure._store.finding_kinds import OUTLIVED, UNRECORDED, Kind
from perdure._store.sql import queries
from perdure._wire.names import MIRROR
from perdure.contracts.keys import Entity
from perdure.contracts.scopes import workflow_prefix
from perdure.errors import InvalidEntity

query = queries(__name__)

PAGE = 500
AT_ONCE = 20
"""Workflows that are described and signalled at the same time."""
PATIENCE = 15.0
"""Seconds in which a workflow must follow the signal."""

_EVERY = 0.1
_RPC = timedelta(seconds=10)


@dataclass(frozen=True, slots=True)
class Discrepancy:
    """An open workflow that does not fit the record."""

    kind: Kind
    entity: Entity
    handle: WorkflowHandle[object, object]
    has_row: bool

    @classmethod
    def of(cls, context: Context, kind: Kind, entity: Entity, run_id: str | None, *, has_row: bool) -> Discrepancy:
        """Make it with the handle of this one run."""
        handle = context.temporal_client.get_workflow_handle(entity.workflow_id(context.settings.scope), run_id=run_id)
        return cls(kind, entity, handle, has_row)


async def unrecorded(context: Context, cursor: object, *, patience: float = PATIENCE) -> None:
    """Page through the open workflows of the app's lifecycles.

    Args:
        cursor: the last lifecycle, and its page.
        patience: seconds in which the workflows of a page must follow the signal.
    """
    at, token = cursor if isinstance(cursor, (list, tuple)) and len(cursor) == 2 else ("", None)
    if context.only is not None:
        await _look_at_one(context, context.only, patience)
        return
    for name in sorted(context.app.lifecycles):
        if name >= str(at):
            await _page_through(context, name, str(token) if token and name == at else None, patience)


async def _look_at_one(context: Context, entity: Entity, patience: float) -> None:
    handle = context.temporal_client.get_workflow_handle(entity.workflow_id(context.settings.scope))
    description = await _described(handle)
    if description is not None and description.start_time < context.younger_than:
        await _compare(context, entity.lifecycle, {entity.id: description}, patience)


async def _page_through(context: Context, name: str, token: str | None, patience: float) -> None:
    prefix = _prefix(context, name)
    pages = context.temporal_client.list_workflows(
        f"ExecutionStatus = 'Running' AND WorkflowType = '{name}' AND WorkflowId STARTS_WITH '{prefix}' "
        f"AND StartTime < '{context.younger_than.isoformat()}'",
        page_size=PAGE,
        next_page_token=base64.b64decode(token) if token else None,
        rpc_timeout=_RPC,
    )
    while True:
        await pages.fetch_next_page()
        page = pages.current_page or ()
        await _compare(context, name, {each.id.removeprefix(prefix): each for each in page}, patience)
        if pages.next_page_token is None:
            return
        context.beat([name, base64.b64encode(pages.next_page_token).decode()])


async def _compare(context: Context, name: str, runs: dict[str, WorkflowExecution], patience: float) -> None:
    """Find the workflows that do not fit the record, and signal them; `runs` has the open workflows by entity id."""
    odd = []
    for row in await fetch(context, query("recorded"), name, list(runs), context.younger_than):
        kind = await _kind(row, runs[row["id"]])
        if kind is None:
            continue
        try:
            entity = Entity(name, row["id"], row["generation"] or 0)
        except InvalidEntity as error:
            what = f"the open workflow {_prefix(context, name)}{row['id']} can't be an entity's: {error}"
            await context.findings.report(UNRECORDED, None, what, "Terminate it in Temporal.", about=row["id"][:200])
            continue
        has_row = row["generation"] is not None
        odd.append(Discrepancy.of(context, kind, entity, runs[row["id"]].run_id, has_row=has_row))
    signalled = [
        each for each, yes in zip(odd, await _at_once([_signal(context, each) for each in odd]), strict=True) if yes
    ]
    await _check_followed(context, signalled, patience)


async def _kind(row: asyncpg.Record, run: WorkflowExecution) -> Kind | None:
    if row["generation"] is None:
        return UNRECORDED
    if row["final"] is not None:
        return OUTLIVED if row["since"] is None else None  # else it may be about to close
    if row["generation"] > 0:
        generation = await generation_of(run)
        if generation != row["generation"]:
            return OUTLIVED if generation is not None and generation < row["generation"] else None
    return UNRECORDED if row["lost"] else None


def _prefix(context: Context, name: str) -> str:
    """The prefix of the ids of a lifecycle's workflows."""
    return workflow_prefix(name, context.settings.scope)


async def _signal(context: Context, odd: Discrepancy) -> bool:
    """Signal the workflow to mirror its state again. Returns False if that is not needed any more."""
    description = await _described(odd.handle)
    if description is None:
        return False
    generation = await generation_of(description)
    if odd.has_row and generation is not None and generation > odd.entity.generation:
        return False  # the database was restored to a time before the restart
    try:
        await odd.handle.signal(MIRROR, context.by, rpc_timeout=_RPC)
    except RPCError as error:
        if error.status is not RPCStatusCode.NOT_FOUND:
            raise
        return False
    return True


async def _described(handle: WorkflowHandle[object, object]) -> WorkflowExecutionDescription | None:
    """The description of the workflow, if it is open."""
    description = await present_run(handle)
    is_open = description is not None and description.status is WorkflowExecutionStatus.RUNNING
    return description if is_open else None


async def _check_followed(context: Context, signalled: Sequence[Discrepancy], patience: float) -> None:
    end, left = time.monotonic() + patience, list(signalled)
    while left:
        over = time.monotonic() > end
        follows = await _at_once([_follows(context, each) for each in left])
        for each, mended in zip(left, follows, strict=True):
            if mended:
                await context.findings.mended(each.kind, each.entity, _MENDED[each.kind.name])
            elif over:
                await _report(context, each)
        left = [] if over else [each for each, mended in zip(left, follows, strict=True) if not mended]
        if left:
            await asyncio.sleep(_EVERY)


_MENDED = {
    UNRECORDED.name: "its workflow was open, and its row was missing or incomplete: the run has written it anew",
    OUTLIVED.name: "it was finished, and its workflow still open: the run has ended",
}


async def _follows(context: Context, odd: Discrepancy) -> bool:
    if odd.kind is OUTLIVED:
        return await _described(odd.handle) is None
    (row,) = await fetch(context, query("recorded"), odd.entity.lifecycle, [odd.entity.id], context.younger_than)
    return row["generation"] is not None and not row["lost"]


async def _report(context: Context, odd: Discrepancy) -> None:
    description = await _described(odd.handle)
    if description is None:
        return
    task = description.raw_description.pending_workflow_task
    why = f"its task has failed {task.attempt} times" if task.attempt > 1 else "no worker takes its task"
    has = "is finished" if odd.kind is OUTLIVED else "has a row without its input" if odd.has_row else "has no row"
    shown = shlex.join(["temporal", "workflow", "show", "--workflow-id", odd.handle.id])
    await context.findings.report(
        odd.kind,
        odd.entity,
        f"its workflow is open, it {has}, and the run does not answer: {why}",
        f"Run a worker whose code fits it. What it did: {shown}",
    )


async def _at_once(waiting: Sequence[Awaitable[bool]]) -> list[bool]:
    """Await these, a limited number at the same time."""
    gate = asyncio.Semaphore(AT_ONCE)

    async def one(each: Awaitable[bool]) -> bool:
        async with gate:
            return await each

    return await asyncio.gather(*(one(each) for each in waiting))
