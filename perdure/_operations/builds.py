"""Which builds of a versioned application there are, and how many open lifecycles each still has."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from temporalio.api.enums.v1 import WorkerDeploymentVersionStatus
from temporalio.api.taskqueue.v1 import TaskQueue
from temporalio.api.workflowservice.v1 import (
    DescribeTaskQueueRequest,
    DescribeWorkerDeploymentRequest,
    DescribeWorkerDeploymentResponse,
)
from temporalio.client import Client
from temporalio.service import RPCError, RPCStatusCode

from perdure._services.queues import KINDS
from perdure.errors import TemporalUnavailable
from perdure.settings import Settings

MOST = 20
"""Builds that are counted; older ones are left out, since each costs a query."""
_RPC = timedelta(seconds=5)
_STATUS = "WORKER_DEPLOYMENT_VERSION_STATUS_"


async def read_builds(client: Client | TemporalUnavailable, settings: Settings) -> list[dict[str, Any]]:
    """The builds of the deployment that serves the task queue, the newest first; none where workers are unversioned, or
    where Temporal did not answer.

    The open lifecycles of a build are those of this task queue whose runs are on it now. A build that is neither
    current nor ramping can be stopped when it has none.
    """
    if isinstance(client, TemporalUnavailable):
        return []
    try:
        name = await _deployment(client, settings)
        return await _builds(client, settings, name) if name else []
    except RPCError:  # the task queues of the same overview state that it did not answer
        return []


async def _deployment(client: Client, settings: Settings) -> str | None:
    if settings.deployment is not None:
        return settings.deployment.partition(":")[0]
    queue = DescribeTaskQueueRequest(
        namespace=client.namespace,
        task_queue=TaskQueue(name=settings.queue),
        task_queue_type=KINDS["workflow"],
    )
    found = await client.workflow_service.describe_task_queue(queue, timeout=_RPC)
    return found.versioning_info.current_deployment_version.deployment_name or None


async def _builds(client: Client, settings: Settings, name: str) -> list[dict[str, Any]]:
    asked = DescribeWorkerDeploymentRequest(namespace=client.namespace, deployment_name=name)
    try:
        seen: DescribeWorkerDeploymentResponse = await client.workflow_service.describe_worker_deployment(
            asked, timeout=_RPC
        )
    except RPCError as error:
        if error.status is RPCStatusCode.NOT_FOUND:
            return []
        raise
    versions = sorted(
        seen.worker_deployment_info.version_summaries, key=lambda each: each.create_time.ToDatetime(), reverse=True
    )
    return [
        {
            "deployment": name,
            "build": (build := each.deployment_version.build_id),
            "status": _status(each.status),
            "open": await _open(client, settings.queue, f"{name}:{build}"),
        }
        for each in versions[:MOST]
    ]


async def _open(client: Client, queue: str, version: str) -> int:
    shown = version.replace("'", "''")
    query = f"TaskQueue = '{queue}' and TemporalWorkerDeploymentVersion = '{shown}' and ExecutionStatus = 'Running'"
    return (await client.count_workflows(query, rpc_timeout=_RPC)).count


def _status(value: Any) -> str:
    return WorkerDeploymentVersionStatus.Name(value).removeprefix(_STATUS).lower()
