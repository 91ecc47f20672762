"""An open entity whose workflow is closed, or gone, is started again from its record."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

import temporalio.client
from temporalio.client import WorkflowExecutionStatus as Execution
from temporalio.service import RPCError, RPCStatusCode

from perdure._reconcile.recovery.closed import HOW_IT_CLOSED
from perdure._store.postgres import Pool
from perdure._store.sql import shared
from perdure._wire.requests import OperatorRequest
from perdure.client.reading import refusals
from perdure.contracts.keys import Entity
from perdure.errors import NotNow, TemporalUnavailable

_RPC = timedelta(seconds=10)


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
        NotNow: something of it runs, or is on its way.
        TemporalUnavailable, DatabaseUnavailable: no answer.
    """
    with refusals(str(entity)):
        seen = await pool.fetchrow(
            shared("identity"),
            entity.lifecycle,
            entity.id,
        )
    assert seen is not None
    how = await _how_it_ended(workflows, entity)
    why = f"retry, started again from its record, since its workflow {how}"
    with refusals(str(entity)):
        begun = await pool.fetchval(
            "select perdure.start_again($1, $2, $3, $4, $5, $6)",
            *(entity.lifecycle, entity.id, seen["generation"], seen["version"], asked.by),
            f"{why}: {asked.note}"[:2100] if asked.note else why,
        )
    if not begun:
        raise NotNow(f"{entity}: it moved meanwhile, or its start is on its way or was rejected: see `perdure show`")
    return f"its workflow {how}: started again from its record"


async def _how_it_ended(workflows: Workflows, entity: Entity) -> str:
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
        raise NotNow(
            f"{entity}: its workflow has ended, and the database does not show it: `perdure reconcile` corrects that"
        )
    raise NotNow(f"{entity}: its workflow is running: try again in a moment")
