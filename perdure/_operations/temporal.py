"""The present tasks of an entity's workflow in Temporal: who has each, and its timeout."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta

from google.protobuf.timestamp_pb2 import Timestamp
from temporalio.api.enums.v1 import PendingActivityState, PendingWorkflowTaskState, VersioningBehavior
from temporalio.api.workflow.v1 import PendingActivityInfo
from temporalio.api.workflowservice.v1 import DescribeWorkflowExecutionResponse
from temporalio.client import Client, WorkflowExecutionStatus
from temporalio.service import RPCError, RPCStatusCode

from perdure._operations.condition import POLLS, Task, WorkflowView
from perdure._operations.history import History, read_history
from perdure._services.queues import Queue, build_name, read_queue
from perdure.contracts.limits import BETWEEN

_WAITING = (
    PendingActivityState.PENDING_ACTIVITY_STATE_SCHEDULED,
    PendingActivityState.PENDING_ACTIVITY_STATE_PAUSED,
)


async def look(client: Client, workflow_id: str) -> tuple[WorkflowView, History]:
    """Its workflow, and the history of that. Raises RPCError where Temporal gives no answer."""
    try:
        described = await client.get_workflow_handle(workflow_id).describe()
    except RPCError as error:
        if error.status is RPCStatusCode.NOT_FOUND:
            return WorkflowView(False, "absent"), History()
        raise
    history = await read_history(client, workflow_id, described.run_id)
    status = described.status.name.lower().replace("_", " ") if described.status else "unknown"
    if described.status is not WorkflowExecutionStatus.RUNNING:
        return WorkflowView(False, status), history
    raw = described.raw_description
    queues = await _queues(client, raw)
    tasks = [_activity(each, history, queues, _build_for(raw, each)) for each in raw.pending_activities]
    if raw.HasField("pending_workflow_task"):
        tasks.append(_workflow_task(raw, history, queues))
    for task in tasks:  # a history names the holder only after the end
        history.under_way(task.what, task.began, task.worker)
    return WorkflowView(True, status, tasks, history.timers), history


async def _queues(client: Client, raw: DescribeWorkflowExecutionResponse) -> Mapping[tuple[str, str], Queue]:
    wanted = {(each.activity_options.task_queue.name, "activity") for each in raw.pending_activities}
    if raw.HasField("pending_workflow_task"):
        wanted.add((raw.execution_config.task_queue.name, "workflow"))
    return {each: await read_queue(client, *each) for each in sorted(wanted) if each[0]}


def _pinned_to(raw: DescribeWorkflowExecutionResponse) -> str | None:
    """The build that the run keeps to; None = it keeps to none."""
    info = raw.workflow_execution_info.versioning_info
    if info.versioning_override.HasField("pinned"):
        return build_name(info.versioning_override.pinned.version)
    pinned = info.behavior == VersioningBehavior.VERSIONING_BEHAVIOR_PINNED
    return build_name(info.deployment_version) if pinned and not info.versioning_override.auto_upgrade else None


def _build_for(raw: DescribeWorkflowExecutionResponse, info: PendingActivityInfo) -> str | None:
    """The build whose workers take the activity. Those of another task queue may be of another deployment."""
    own, queue = raw.execution_config.task_queue.name, info.activity_options.task_queue.name
    return _pinned_to(raw) if queue == own or queue.startswith(own + BETWEEN) else None


def _activity(
    info: PendingActivityInfo, history: History, queues: Mapping[tuple[str, str], Queue], build: str | None
) -> Task:
    what = history.activities.get(info.activity_id) or info.activity_type.name
    options, queue = info.activity_options, queues.get((info.activity_options.task_queue.name, "activity"))
    slot, colon, _ = what.partition(": attempt ")
    ordered = _time(info.scheduled_time)
    if info.state in _WAITING:
        paused = info.state == PendingActivityState.PENDING_ACTIVITY_STATE_PAUSED
        return _waiting(f"{what} (paused by hand)" if paused else what, ordered, queue, build, tries=info.attempt)
    began = _time(info.last_started_time)
    last_heartbeat = _time(info.last_heartbeat_time) if info.HasField("last_heartbeat_time") else None
    silence = options.heartbeat_timeout.ToTimedelta().total_seconds() or None
    ends = [began + options.start_to_close_timeout.ToTimedelta()] if options.start_to_close_timeout.seconds else []
    if silence is not None:
        ends.append((last_heartbeat or began) + timedelta(seconds=silence))
    return Task(
        what,
        ordered,
        slot=slot if colon else None,
        began=began,
        worker=info.last_worker_identity or None,
        last_heartbeat=last_heartbeat,
        silence=silence,
        until=min(ends, default=None),
        polled=queue.pollers.get(info.last_worker_identity) if queue else None,
        tries=info.attempt,
    )


def _workflow_task(
    raw: DescribeWorkflowExecutionResponse, history: History, queues: Mapping[tuple[str, str], Queue]
) -> Task:
    info, what = raw.pending_workflow_task, "a workflow task"
    queue = queues.get((raw.execution_config.task_queue.name, "workflow"))
    ordered = _time(info.original_scheduled_time)
    if info.state != PendingWorkflowTaskState.PENDING_WORKFLOW_TASK_STATE_STARTED:
        return _waiting(what, ordered, queue, _pinned_to(raw), tries=info.attempt)
    began = _time(info.started_time)
    worker = history.worker if info.attempt == 1 else None  # who takes it again does not stand in the history
    return Task(
        what,
        ordered,
        began=began,
        worker=worker,
        until=began + raw.execution_config.default_workflow_task_timeout.ToTimedelta(),
        polled=queue.pollers.get(worker) if queue and worker else None,
        tries=info.attempt,
    )


def _waiting(what: str, since: datetime, queue: Queue | None, build: str | None, *, tries: int) -> Task:
    if queue is None:
        return Task(what, since, build=build, tries=tries)
    recent = datetime.now(UTC) - timedelta(seconds=POLLS)
    polled = [name for name, at in queue.pollers.items() if at > recent]
    takers = [name for name in polled if build in (None, queue.builds.get(name))]
    return Task(what, since, queue=queue.name, build=build, pollers=len(takers), tries=tries)


def _time(stamp: Timestamp) -> datetime:
    return stamp.ToDatetime(UTC)
