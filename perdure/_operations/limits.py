"""The rates of an app's limits: what is in force at Temporal, and how an operator changes it for the whole fleet."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from temporalio.api.enums.v1 import RateLimitSource, TaskQueueType
from temporalio.api.taskqueue.v1 import TaskQueue
from temporalio.api.workflowservice.v1 import DescribeTaskQueueRequest, UpdateTaskQueueConfigRequest
from temporalio.client import Client
from temporalio.service import RPCError, RPCStatusCode

from perdure._wire.requests import OperatorRequest
from perdure.contracts.limits import RateLimit
from perdure.errors import TemporalUnavailable

_ACTIVITY = TaskQueueType.TASK_QUEUE_TYPE_ACTIVITY
_PATIENCE = timedelta(seconds=5)
_RECENT = timedelta(minutes=5)


async def read_limit(client: Client, limit: RateLimit, lifecycles: str) -> dict[str, Any]:
    """The rate in force, who set it, and the backlog.

    Args:
        lifecycles: the task queue of the lifecycles.

    Raises:
        TemporalUnavailable: Temporal gave no answer.
    """
    name = limit.task_queue(lifecycles)
    request = DescribeTaskQueueRequest(
        namespace=client.namespace,
        task_queue=TaskQueue(name=name),
        task_queue_type=_ACTIVITY,
        report_stats=True,
        report_config=True,
    )
    try:
        seen = await client.workflow_service.describe_task_queue(request, timeout=_PATIENCE)
    except RPCError as error:
        raise TemporalUnavailable(f"Temporal gave no answer about the task queue {name}: {error.message}") from error
    by_operator = seen.effective_rate_limit.rate_limit_source == RateLimitSource.RATE_LIMIT_SOURCE_API
    by_worker = seen.effective_rate_limit.rate_limit_source == RateLimitSource.RATE_LIMIT_SOURCE_WORKER
    metadata = seen.config.queue_rate_limit.metadata
    recent = datetime.now(UTC) - _RECENT
    return {
        "limit": limit.name,
        "task_queue": name,
        "declared": limit.per_second,
        # The server has no limit until the first poll of a worker.
        "per_second": seen.effective_rate_limit.requests_per_second if by_operator or by_worker else limit.per_second,
        "set_by": metadata.update_identity if by_operator else None,
        "set_at": metadata.update_time.ToDatetime(UTC) if by_operator else None,
        "note": metadata.reason if by_operator else None,
        "backlog": seen.stats.approximate_backlog_count,
        "backlog_seconds": max(seen.stats.approximate_backlog_age.ToTimedelta().total_seconds(), 0.0),
        "handed_out_per_second": round(seen.stats.tasks_dispatch_rate, 1),
        "pollers": sorted(each.identity for each in seen.pollers if each.last_access_time.ToDatetime(UTC) > recent),
    }


async def set_limit(
    client: Client, limit: RateLimit, lifecycles: str, per_second: float | None, asked: OperatorRequest
) -> None:
    """Change its rate for the whole fleet, from the next second on; it outlives workers and deploys.

    Args:
        lifecycles: the task queue of the lifecycles.
        per_second: 0 = nothing goes; None = as declared, again.
        asked: who changes it, and why. Temporal stores both.

    Raises:
        TemporalUnavailable: Temporal gave no answer, or can't do that.
    """
    request = UpdateTaskQueueConfigRequest(
        namespace=client.namespace,
        identity=asked.by,
        task_queue=limit.task_queue(lifecycles),
        task_queue_type=_ACTIVITY,
    )
    request.update_queue_rate_limit.reason = asked.note
    if per_second is not None:
        request.update_queue_rate_limit.rate_limit.requests_per_second = per_second
    try:
        await client.workflow_service.update_task_queue_config(request, timeout=_PATIENCE)
    except RPCError as error:
        if error.status is RPCStatusCode.UNIMPLEMENTED:
            raise TemporalUnavailable(
                "this Temporal server can't change the rate of a task queue: "
                f"change RateLimit({limit.name!r}, per_second=...) and deploy"
            ) from error
        raise TemporalUnavailable(f"Temporal did not change {request.task_queue}: {error.message}") from error
