"""Requests a reconciliation for a person and waits for it: reports the progress, and gives up if no worker works on
it."""

from __future__ import annotations

import asyncio
import shlex
import time
from collections.abc import Callable
from datetime import timedelta

from temporalio.api.enums.v1 import PendingActivityState as Activity
from temporalio.api.enums.v1 import PendingWorkflowTaskState as Task
from temporalio.api.workflow.v1 import PendingActivityInfo
from temporalio.api.workflowservice.v1 import DescribeWorkflowExecutionResponse
from temporalio.client import Client, WorkflowHandle
from temporalio.service import RPCError

from perdure._crypto.codec import opened
from perdure._reconcile.starting import start_reconciliation
from perdure._reconcile.workflow import PART, Reconciliation
from perdure._wire.reconciliation import ReconciliationRequest, Summary
from perdure.errors import TemporalUnavailable

PATIENCE = 30.0
"""Seconds without a worker on it, after which the wait ends."""
_RPC = timedelta(seconds=10)


async def reconcile(
    temporal_client: Client,
    scope: str | None,
    asked: ReconciliationRequest,
    report: Callable[[str], None],
    *,
    patience: float = PATIENCE,
) -> Summary:
    """Start a reconciliation, or join the running one, and wait until it has ended.

    Args:
        report: receives the progress.

    Raises:
        TemporalUnavailable: Temporal does not answer, or no worker does.
        WorkflowFailureError: the reconciliation could not begin.
    """
    try:
        handle = await start_reconciliation(temporal_client, scope, asked)
        return await _wait(temporal_client, handle, report, patience)
    except RPCError as error:
        raise TemporalUnavailable(f"no answer from Temporal: {error}; the reconciliation may be under way") from error


async def _wait(
    temporal_client: Client,
    handle: WorkflowHandle[Reconciliation, Summary],
    report: Callable[[str], None],
    patience: float,
) -> Summary:
    ending = asyncio.create_task(handle.result())
    try:
        seen_at = time.monotonic()
        while not (await asyncio.wait({ending}, timeout=1.0))[0]:
            seen = (await handle.describe(rpc_timeout=_RPC)).raw_description
            progress = await _at(temporal_client, seen)
            if progress is not None:
                seen_at = time.monotonic()
                report(progress)
            elif time.monotonic() - seen_at > patience:
                raise TemporalUnavailable(
                    _paused(handle.id, seen)
                    or f"no worker has taken it for {patience:g} s: start one (`perdure worker`), and it goes on"
                )
        return ending.result()
    finally:
        ending.cancel()


async def _at(temporal_client: Client, seen: DescribeWorkflowExecutionResponse) -> str | None:
    """The progress; None if no worker works on it, and none is about to."""
    for part in seen.pending_activities:
        is_begun = part.state == Activity.PENDING_ACTIVITY_STATE_STARTED
        if not is_begun and not part.HasField("next_attempt_schedule_time"):
            continue  # its next attempt is due
        if part.last_failure.message:
            failure = await opened(part.last_failure, temporal_client.data_converter)
            return f"{_name(part)}: attempt {part.attempt}, after {failure.message.splitlines()[0][:200]}"
        return f"{_name(part)}{await _how_far(temporal_client, part)}"
    return "begins" if seen.pending_workflow_task.state == Task.PENDING_WORKFLOW_TASK_STATE_STARTED else None


def _paused(workflow_id: str, seen: DescribeWorkflowExecutionResponse) -> str | None:
    """Which part somebody has paused, and how it goes on; None = none."""
    for part in seen.pending_activities:
        if part.state == Activity.PENDING_ACTIVITY_STATE_PAUSED:
            unpause = (
                "temporal",
                "activity",
                "unpause",
                "--workflow-id",
                workflow_id,
                "--activity-id",
                part.activity_id,
            )
            return f"its part {_name(part)} is paused by hand: {shlex.join(unpause)}"
    return None


def _name(part: PendingActivityInfo) -> str:
    return part.activity_type.name.removeprefix(PART)


async def _how_far(temporal_client: Client, part: PendingActivityInfo) -> str:
    details = (
        await temporal_client.data_converter.decode(part.heartbeat_details.payloads)
        if part.heartbeat_details.payloads
        else []
    )
    match details:
        case [[*_, int(seen)], _] | [int(seen), _]:
            return f": {seen} so far"
        case _:
            return ""
