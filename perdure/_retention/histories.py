"""Finds and deletes the histories of an entity in Temporal."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import AsyncIterator
from datetime import timedelta

from temporalio.api.common.v1 import WorkflowExecution
from temporalio.api.enums.v1 import EventType
from temporalio.api.workflowservice.v1 import DeleteWorkflowExecutionRequest
from temporalio.client import Client, WorkflowExecutionStatus
from temporalio.client import WorkflowExecution as ListedRun
from temporalio.service import RPCError, RPCStatusCode

from perdure.errors import NotNow, TemporalUnavailable

PATIENCE = 120.0
"""Seconds to wait: Temporal deletes in the background, and a run that has just ended after half a minute."""
_CALL = timedelta(seconds=10)


async def listed_runs(temporal_client: Client, workflow_id: str) -> AsyncIterator[ListedRun]:
    """The runs of a workflow that Temporal lists. Lists come late.

    Temporal finds no id with a double quote or a backslash, so it is asked for what stands before the first of them.
    """
    known, *rest = re.split(r'["\\]', workflow_id, maxsplit=1)
    quoted = known.replace("'", "''")
    async for run in temporal_client.list_workflows(f"WorkflowId {'STARTS_WITH' if rest else '='} '{quoted}'"):
        if run.id == workflow_id:
            yield run


async def closed_runs(temporal_client: Client, workflow_id: str) -> list[str]:
    """The ids of all runs of a workflow that Temporal still has.

    Temporal's list lags, so the newest run is described by its workflow id, and each run names the one before it.

    Raises:
        NotNow: a run is open.
        TemporalUnavailable: no answer.
    """
    try:
        seen = {run.run_id async for run in listed_runs(temporal_client, workflow_id)}
        found: dict[str, None] = {}
        wanted: list[str | None] = [None, *seen]
        while wanted:
            run = wanted.pop(0)
            if run not in found and (known := await _run(temporal_client, workflow_id, run)) and known not in found:
                found[known] = None
                wanted.append(await _before(temporal_client, workflow_id, known))
        return list(found)
    except RPCError as error:
        raise TemporalUnavailable(f"Temporal gave no answer about {workflow_id}: {error.message}") from error


async def delete_runs(temporal_client: Client, workflow_id: str, *, patience: float = PATIENCE) -> int:
    """Delete all runs, and wait until they are gone. Returns their number.

    Raises:
        NotNow: a run is open.
        TemporalUnavailable: no answer, or a run is not gone after `patience` seconds.
    """
    until, pause = time.monotonic() + patience, 0.05
    deleted: dict[str, None] = {}
    left = await closed_runs(temporal_client, workflow_id)
    while left:
        for run in left:
            if run not in deleted:
                await _delete(temporal_client, workflow_id, run)
                deleted[run] = None
        if time.monotonic() > until:
            raise TemporalUnavailable(f"Temporal still has runs of {workflow_id} after {patience:g} s: run this again")
        await asyncio.sleep(pause)
        pause = min(2 * pause, 1.0)
        # The list loses a run before the run itself is gone. A run that appears in the list late is deleted, too.
        left = [run for run in deleted if await _there(temporal_client, workflow_id, run)]
        left = left or await closed_runs(temporal_client, workflow_id)
    return len(deleted)


async def _run(temporal_client: Client, workflow_id: str, run: str | None) -> str | None:
    """The id of a run, or None if it does not exist."""
    try:
        seen = await temporal_client.get_workflow_handle(workflow_id, run_id=run).describe(rpc_timeout=_CALL)
    except RPCError as error:
        if error.status is RPCStatusCode.NOT_FOUND:
            return None
        raise
    if seen.status is WorkflowExecutionStatus.RUNNING:
        raise NotNow(f"{workflow_id} has a run that is open: wait for its end, or cancel it")
    return seen.run_id


async def _there(temporal_client: Client, workflow_id: str, run: str) -> bool:
    try:
        return await _run(temporal_client, workflow_id, run) is not None
    except RPCError as error:
        raise TemporalUnavailable(f"Temporal gave no answer about {workflow_id}: {error.message}") from error


async def _before(temporal_client: Client, workflow_id: str, run: str) -> str | None:
    """The run that this run continued."""
    handle = temporal_client.get_workflow_handle(workflow_id, run_id=run)
    try:
        async for event in handle.fetch_history_events(page_size=1, rpc_timeout=_CALL):
            if event.event_type == EventType.EVENT_TYPE_WORKFLOW_EXECUTION_STARTED:
                return event.workflow_execution_started_event_attributes.continued_execution_run_id or None
            break
    except RPCError as error:
        if error.status is not RPCStatusCode.NOT_FOUND:
            raise
    return None


async def _delete(temporal_client: Client, workflow_id: str, run: str) -> None:
    execution = WorkflowExecution(workflow_id=workflow_id, run_id=run)
    request = DeleteWorkflowExecutionRequest(namespace=temporal_client.namespace, workflow_execution=execution)
    try:
        await temporal_client.workflow_service.delete_workflow_execution(request, timeout=_CALL)
    except RPCError as error:
        if error.status is not RPCStatusCode.NOT_FOUND:
            raise TemporalUnavailable(f"Temporal did not delete {workflow_id}, {run}: {error.message}") from error
