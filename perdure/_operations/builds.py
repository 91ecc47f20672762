"""Which builds of a versioned application there are, and how many open lifecycles each still has."""

from __future__ import annotations

import shlex
from datetime import UTC, timedelta
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
from perdure._wire.names import WAKE
from perdure.errors import PerdureError
from perdure.settings import Settings

MOST = 20
"""Builds that are counted; older ones are left out, since each costs a query."""
_RPC = timedelta(seconds=5)
_SERVES = ("current", "ramping")
"""The status of builds on which new lifecycles begin."""
_STATUS = "WORKER_DEPLOYMENT_VERSION_STATUS_"


async def read_builds(client: Client | PerdureError, settings: Settings) -> list[dict[str, Any]]:
    """The builds of the deployment that serves the task queue, the newest first; none where workers are unversioned, or
    where Temporal did not answer.

    The open lifecycles of a build are those of this task queue whose runs are on it now. A build that is neither
    current nor ramping can be stopped when it has none: `must_stay` is false then. `why` gives the reason, `wake` is
    the command that lets those that only wait leave at once. `since` is when the build became what it is.
    """
    if isinstance(client, PerdureError):
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
    return [await _build(client, settings, name, each) for each in versions[:MOST]]


async def _build(client: Client, settings: Settings, name: str, version: Any) -> dict[str, Any]:
    build, status = version.deployment_version.build_id, _status(version.status)
    count = await _open(client, settings.queue, f"{name}:{build}")
    must_stay, why = _stays(status, count)
    since = version.current_since_time if status == "current" else version.ramping_since_time
    if status not in _SERVES:
        since = version.last_deactivation_time if version.HasField("last_deactivation_time") else version.create_time
    return {
        "deployment": name,
        "build": build,
        "status": status,
        "open": count,
        "since": since.ToDatetime(UTC),
        "must_stay": must_stay,
        "why": why,
        "wake": _wake(f"{name}:{build}", client.namespace) if must_stay and status not in _SERVES else None,
    }


def _stays(status: str, count: int) -> tuple[bool, str]:
    """Whether the workers of a build must stay, and until when."""
    if status in _SERVES:
        return True, "yes: new lifecycles begin on it"
    if count:
        return True, "yes: until the last of them has left"
    return False, "no: stop its workers"


def _wake(version: str, namespace: str) -> str:
    """The command that gives each lifecycle of a build a task, with which it leaves."""
    query = f"TemporalWorkerDeploymentVersion = '{_quoted(version)}' and ExecutionStatus = 'Running'"
    given = ("--name", WAKE, "--input", '""', "--reason", f"leave {version}", "--query", query)
    return shlex.join(("temporal", "workflow", "signal", "--namespace", namespace, *given))


def _quoted(version: str) -> str:
    return version.replace("'", "''")


async def _open(client: Client, queue: str, version: str) -> int:
    where = f"TaskQueue = '{queue}' and TemporalWorkerDeploymentVersion = '{_quoted(version)}'"
    query = f"{where} and ExecutionStatus = 'Running'"
    return (await client.count_workflows(query, rpc_timeout=_RPC)).count


def _status(value: Any) -> str:
    return WorkerDeploymentVersionStatus.Name(value).removeprefix(_STATUS).lower()
