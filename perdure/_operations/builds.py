"""Which builds of a versioned application there are, and how many open lifecycles each still has."""

from __future__ import annotations

import shlex
from collections.abc import Collection, Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from temporalio.api.deployment.v1 import WorkerDeploymentInfo
from temporalio.api.enums.v1 import WorkerDeploymentVersionStatus
from temporalio.api.workflowservice.v1 import DescribeWorkerDeploymentRequest, DescribeWorkerDeploymentResponse
from temporalio.client import Client
from temporalio.common import SearchAttributeKey
from temporalio.service import RPCError, RPCStatusCode

from perdure._operations.condition import POLLS
from perdure._services.queues import Queue, build_name, read_queue
from perdure._wire.names import WAKE
from perdure.errors import PerdureError
from perdure.settings import Settings

_RPC = timedelta(seconds=5)
_SERVES = ("current", "ramping")
"""The status of builds on which new lifecycles begin."""
_STATUS = "WORKER_DEPLOYMENT_VERSION_STATUS_"
_BUILD = SearchAttributeKey.for_keyword("TemporalWorkerDeploymentVersion")

_PINNED = "TemporalWorkflowVersioningBehavior = 'Pinned'"
_Summary = WorkerDeploymentInfo.WorkerDeploymentVersionSummary


async def read_builds(client: Client | PerdureError, settings: Settings) -> list[dict[str, Any]]:
    """The builds that serve the task queue or did, the newest first; none where workers are unversioned.

    The open lifecycles of a build are those of this task queue whose runs are on it now; `pinned` ones keep to it, and
    the others continue on the current build. A build that is neither current nor ramping can be stopped when it has no
    pinned ones: `must_stay` is false then. `why` gives the reason, `wake` is the command that lets those that only wait
    leave at once. `since` is when the build became what it is, `workers` is the number of its workers that poll. If
    Temporal did not answer, the one row has `error`.
    """
    try:
        if isinstance(client, PerdureError):
            raise client
        return await _read(client, settings)
    except PerdureError as error:
        return [_unknown(str(error))]
    except RPCError as error:
        if error.status is RPCStatusCode.UNIMPLEMENTED:
            return []  # Temporal's time-skipping server answers, and has no builds
        return [_unknown(f"Temporal did not answer: {error.message}")]


def in_use(build: Mapping[str, Any]) -> bool:
    """Whether somebody has to know of the build: it has new or open lifecycles, or workers that may be stopped."""
    return bool(build["must_stay"] or build["open"] or build["workers"] or build["status"] == "draining")


async def _read(client: Client, settings: Settings) -> list[dict[str, Any]]:
    queue = await read_queue(client, settings.queue, "workflow")
    counts = await _open(client, settings.queue)
    # A renamed deployment, or one that was left for unversioned workers, can still have open lifecycles.
    builds = {*counts, *queue.builds.values(), *queue.serving, *filter(None, [settings.deployment])}
    found = dict.fromkeys(counts, _Summary())
    for name in sorted({each.partition(":")[0] for each in builds}):
        found |= {build_name(each.deployment_version): each for each in await _summaries(client, name)}
    newest = sorted(found, key=lambda build: found[build].create_time.ToDatetime(), reverse=True)
    workers = _workers(queue)
    return [_row(client, each, found[each], counts.get(each, (0, 0)), workers.count(each)) for each in newest]


async def _summaries(client: Client, name: str) -> Iterable[_Summary]:
    asked = DescribeWorkerDeploymentRequest(namespace=client.namespace, deployment_name=name)
    try:
        seen: DescribeWorkerDeploymentResponse = await client.workflow_service.describe_worker_deployment(
            asked, timeout=_RPC
        )
    except RPCError as error:
        if error.status is RPCStatusCode.NOT_FOUND:
            return []
        raise
    return seen.worker_deployment_info.version_summaries


async def _open(client: Client, queue: str) -> dict[str, tuple[int, int]]:
    """The open lifecycles on each build that has some, and how many of them are pinned to it.

    Temporal groups by no build, so one run on a further build is requested until there is none: a build without open
    lifecycles costs nothing.
    """
    here = f"TaskQueue = '{queue}' and ExecutionStatus = 'Running' and {_BUILD.name}"
    counts: dict[str, tuple[int, int]] = {}
    while (build := await _further(client, here, counts)) is not None and build not in counts:
        on_it = f"{here} = {_literal(build)}"
        counts[build] = await _count(client, on_it), await _count(client, f"{on_it} and {_PINNED}")
    return counts


async def _count(client: Client, query: str) -> int:
    return (await client.count_workflows(query, rpc_timeout=_RPC)).count


async def _further(client: Client, here: str, known: Collection[str]) -> str | None:
    others = f" and {_BUILD.name} not in ({', '.join(map(_literal, known))})" if known else ""
    listed = client.list_workflows(f"{here} is not null{others}", limit=1, page_size=1, rpc_timeout=_RPC)
    async for run in listed:
        return run.typed_search_attributes[_BUILD]
    return None


def _workers(queue: Queue) -> list[str]:
    """The build of each worker that polls."""
    recent = datetime.now(UTC) - timedelta(seconds=POLLS)
    return [build for name, build in queue.builds.items() if queue.pollers[name] > recent]


_COLUMNS = ("deployment", "build", "status", "open", "pinned", "workers", "since", "wake")


def _unknown(error: str) -> dict[str, Any]:
    return dict.fromkeys(_COLUMNS) | {"must_stay": True, "why": "yes: what is open is not known", "error": error}


def _row(client: Client, version: str, summary: _Summary, counts: tuple[int, int], workers: int) -> dict[str, Any]:
    deployment, _, build = version.partition(":")
    status = WorkerDeploymentVersionStatus.Name(summary.status).removeprefix(_STATUS).lower()
    count, pinned = counts
    must_stay, why = _stays(status, count, pinned)
    return {
        "deployment": deployment,
        "build": build,
        "status": status,
        "open": count,
        "pinned": pinned,
        "workers": workers,
        "since": _since(status, summary),
        "must_stay": must_stay,
        "why": why,
        "wake": _wake(version, client.namespace) if must_stay and status not in _SERVES else None,
        "error": None,
    }


def _since(status: str, summary: _Summary) -> datetime | None:
    """None = Temporal has no record of the build any more."""
    since = summary.current_since_time if status == "current" else summary.ramping_since_time
    if status not in _SERVES:
        since = summary.last_deactivation_time if summary.HasField("last_deactivation_time") else summary.create_time
    return since.ToDatetime(UTC) if since.seconds else None


def _stays(status: str, count: int, pinned: int) -> tuple[bool, str]:
    """Whether the workers of a build must stay, and until when."""
    if status in _SERVES:
        return True, "yes: new lifecycles begin on it"
    if pinned:
        return True, "yes: until the last of them has left"
    if count:
        return False, "no: those open on it continue on the current build"
    return False, "no: stop its workers"


def _wake(build: str, namespace: str) -> str:
    """The command that gives each lifecycle of a build a task, with which it leaves."""
    query = f"{_BUILD.name} = {_literal(build)} and ExecutionStatus = 'Running'"
    given = ("--name", WAKE, "--input", '""', "--reason", f"leave {build}", "--query", query)
    return shlex.join(("temporal", "workflow", "signal", "--namespace", namespace, *given))


def _literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
