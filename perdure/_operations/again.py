"""An open entity whose workflow is closed, or gone, is started again from its record."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

import temporalio.client
from temporalio.client import WorkflowExecutionStatus as Execution
from temporalio.service import RPCError, RPCStatusCode

from perdure._reconcile.recovery.closed import HOW_IT_CLOSED
from perdure._store.finding_kinds import UNFINISHED
from perdure._store.postgres import Pool
from perdure._store.schema.kinds import Kind
from perdure._store.sql import queries, shared
from perdure._text.shown import command
from perdure._wire.requests import OperatorRequest
from perdure.client.reading import refusals
from perdure.contracts.keys import Entity
from perdure.errors import NotNow, TemporalUnavailable

query = queries(__name__)

_RPC = timedelta(seconds=10)
_NORMALLY = "has ended, and its end could not be recorded"


@dataclass(frozen=True, slots=True)
class Workflows:
    """Where workflows are.

    Attributes:
        client: of Temporal.
        scope: first part of workflow ids.
    """

    client: temporalio.client.Client
    scope: str | None


async def start_again(pool: Pool, workflows: Workflows, entity: Entity, asked: OperatorRequest) -> str:
    """Start it again, if Temporal confirms that nothing of it runs.

    Raises:
        NotNow: something of it runs, or is on its way, or a reconciliation may still record its end.
        TemporalUnavailable, DatabaseUnavailable: no answer.
    """
    async with refusals(pool, str(entity), Kind.OPERATOR):
        seen = await pool.fetchrow(
            shared("identity"),
            entity.lifecycle,
            entity.id,
        )
    assert seen is not None
    how = await _how_it_closed(workflows, entity)
    if how == _NORMALLY:
        await _check_left(pool, entity, seen["generation"])
    why = f"retry, started again from its record, since its workflow {how}"
    async with refusals(pool, str(entity), Kind.OPERATOR):
        begun = await pool.fetchval(
            "select perdure.start_again($1, $2, $3, $4, $5, $6)",
            *(entity.lifecycle, entity.id, seen["generation"], seen["version"], asked.by),
            f"{why}: {asked.note}"[:2100] if asked.note else why,
        )
    if not begun:
        raise NotNow(f"{entity}: it moved meanwhile, or its start is on its way or was rejected: see `perdure show`")
    return f"its workflow {how}: started again from its record"


async def _how_it_closed(workflows: Workflows, entity: Entity) -> str:
    handle = workflows.client.get_workflow_handle(entity.workflow_id(workflows.scope))
    try:
        status = (await handle.describe(rpc_timeout=_RPC)).status
    except RPCError as error:
        if error.status is RPCStatusCode.NOT_FOUND:
            return "is gone"
        raise TemporalUnavailable(f"{entity}: no answer from Temporal: {error}") from error
    if status in HOW_IT_CLOSED:
        return HOW_IT_CLOSED[status]
    if status is Execution.COMPLETED:
        return _NORMALLY
    raise NotNow(f"{entity}: its workflow is running: try again in a moment")


async def _check_left(pool: Pool, entity: Entity, generation: int) -> None:
    """Raise NotNow unless a reconciliation has left it: the end that the workflow has taken comes first."""
    async with refusals(pool, str(entity), Kind.OPERATOR):
        left = await pool.fetchval(query("left_unfinished"), UNFINISHED.name, entity.lifecycle, entity.id, generation)
    if not left:
        now = command("reconcile", "--now", entity.lifecycle, entity.id)
        raise NotNow(
            f"{entity}: its workflow has ended, and the database does not show it: `{now}` records that. If it leaves "
            "the entity, retry starts it again from its record"
        )
