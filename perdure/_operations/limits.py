"""The rates of an app's limits: what is in force at Temporal, and how an operator changes it for the whole fleet."""

from __future__ import annotations

import asyncio
import struct
from datetime import UTC, datetime, timedelta
from typing import Any

from temporalio.api.enums.v1 import RateLimitSource, TaskQueueType
from temporalio.api.taskqueue.v1 import TaskQueue
from temporalio.api.workflowservice.v1 import (
    DescribeTaskQueueRequest,
    DescribeTaskQueueResponse,
    UpdateTaskQueueConfigRequest,
)
from temporalio.client import Client
from temporalio.service import RPCError, RPCStatusCode

from perdure._wire.requests import OperatorRequest
from perdure.contracts.limits import RateLimit
from perdure.errors import InvalidSetting, TemporalUnavailable

_ACTIVITY = TaskQueueType.TASK_QUEUE_TYPE_ACTIVITY
_PATIENCE = timedelta(seconds=5)
_RECENT = timedelta(minutes=5)
_LEAST, _MOST = 1e-6, 1e6
"""Temporal stores a rate as a 32-bit float: of smaller ones it would make zero."""
_LOOKS = 20


def check_rate(per_second: float) -> float:
    """The rate, if Temporal can store it.

    Raises:
        InvalidSetting: it is not zero, and not between one in a million seconds and a million in one.
    """
    if per_second != 0 and not _LEAST <= per_second <= _MOST:
        raise InvalidSetting(f"{per_second:g} is no rate: write 0, or a number from {_LEAST:f} to {_MOST:.0f}")
    return per_second


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
    return {"limit": limit.name, "task_queue": name, **_rates(seen, limit.per_second), **_waiting(seen)}


def _rates(seen: DescribeTaskQueueResponse, declared: float) -> dict[str, Any]:
    """The rate in force, and who set which one: the server keeps a set rate that is above its own bound, without
    effect."""
    kept, effective = seen.config.queue_rate_limit, seen.effective_rate_limit
    by_operator = kept.HasField("rate_limit")
    in_force = _short(effective.requests_per_second)
    if effective.rate_limit_source == RateLimitSource.RATE_LIMIT_SOURCE_UNSPECIFIED:
        in_force = declared  # an older server, which reports none
    elif not by_operator and effective.rate_limit_source == RateLimitSource.RATE_LIMIT_SOURCE_SYSTEM:
        in_force = min(in_force, declared)  # until the first poll of a worker, the server knows its own bound only
    return {
        "declared": declared,
        "per_second": in_force,
        "set_to": _short(kept.rate_limit.requests_per_second) if by_operator else None,
        "set_by": kept.metadata.update_identity if by_operator else None,
        "set_at": kept.metadata.update_time.ToDatetime(UTC) if by_operator else None,
        "note": kept.metadata.reason if by_operator else None,
    }


def _waiting(seen: DescribeTaskQueueResponse) -> dict[str, Any]:
    recent = datetime.now(UTC) - _RECENT
    return {
        "backlog": seen.stats.approximate_backlog_count,
        "backlog_seconds": max(seen.stats.approximate_backlog_age.ToTimedelta().total_seconds(), 0.0),
        "handed_out_per_second": round(seen.stats.tasks_dispatch_rate, 1),
        "pollers": sorted(each.identity for each in seen.pollers if each.last_access_time.ToDatetime(UTC) > recent),
    }


def _short(rate: float) -> float:
    """A 32-bit float with the digits that it holds: 0.1, and not 0.10000000149011612."""
    return float(f"{rate:.7g}")


async def set_limit(
    client: Client, limit: RateLimit, lifecycles: str, per_second: float | None, asked: OperatorRequest
) -> dict[str, Any]:
    """Change its rate for the whole fleet, from the next second on; it outlives workers and deploys. Returns what
    `read_limit` does once the rate is in force, or after two seconds.

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
    return await _in_force(client, limit, lifecycles, per_second)


async def _in_force(client: Client, limit: RateLimit, lifecycles: str, per_second: float | None) -> dict[str, Any]:
    """Each partition of a task queue receives the new rate separately."""
    wanted = None if per_second is None else _short(_stored(per_second))
    row = await read_limit(client, limit, lifecycles)
    for _ in range(_LOOKS):
        if row["set_to"] == wanted and wanted in (None, row["per_second"]):
            break
        await asyncio.sleep(0.1)
        row = await read_limit(client, limit, lifecycles)
    return row


def _stored(rate: float) -> float:
    """The rate as Temporal stores it."""
    return float(struct.unpack("f", struct.pack("f", rate))[0])
