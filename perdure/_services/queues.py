"""Task queues: the queues that an app uses, their pollers, and their backlog."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from temporalio.api.deployment.v1 import WorkerDeploymentVersion
from temporalio.api.enums.v1 import TaskQueueType, WorkerVersioningMode
from temporalio.api.taskqueue.v1 import PollerInfo, TaskQueue
from temporalio.api.workflowservice.v1 import DescribeTaskQueueRequest
from temporalio.client import Client

from perdure.app import App
from perdure.contracts.scopes import queue_of
from perdure.settings import Settings

KINDS = {
    "workflow": TaskQueueType.TASK_QUEUE_TYPE_WORKFLOW,
    "activity": TaskQueueType.TASK_QUEUE_TYPE_ACTIVITY,
}


@dataclass(frozen=True, slots=True)
class Queue:
    """One task queue, for one kind of tasks.

    Attributes:
        pollers: time of each worker's last poll, by its identity. A killed worker stays for some minutes.
        backlog: approximate number of waiting tasks.
        age: approximate age of the oldest waiting task, in seconds.
        builds: the build `deployment:build` of each worker that takes part in worker versioning, by its identity.
        serving: the current and the ramping build, on which new runs begin.
    """

    name: str
    kind: str
    pollers: Mapping[str, datetime]
    backlog: int
    age: float
    builds: Mapping[str, str] = field(default_factory=dict)
    serving: Sequence[str] = ()


def queues(app: App | None, settings: Settings) -> list[tuple[str, str]]:
    """Every task queue that the app uses, with the kind of its tasks."""
    main = settings.queue
    special = _declared(app, settings) if app else set()
    special |= {limit.task_queue(main) for limit in app.limits.values()} if app else set()
    return [(main, kind) for kind in KINDS] + [(each, "activity") for each in sorted(special - {main})]


def is_of_effects(name: str, app: App, settings: Settings) -> bool:
    """Whether an effect or a look-up declares this task queue. Its workers run no lifecycle: a run there would keep to
    another queue of each limit, and would stand still once they are gone."""
    return name in _declared(app, settings)


def _declared(app: App, settings: Settings) -> set[str]:
    return {queue_of(each, settings.scope) for each in app.task_queues}


async def read_queue(client: Client, name: str, kind: str) -> Queue:
    """Read a task queue from Temporal. Raises RPCError."""
    seen = await client.workflow_service.describe_task_queue(
        DescribeTaskQueueRequest(
            namespace=client.namespace,
            task_queue=TaskQueue(name=name),
            task_queue_type=KINDS[kind],
            report_stats=True,
        ),
        timeout=timedelta(seconds=5),
    )
    age = seen.stats.approximate_backlog_age.ToTimedelta().total_seconds()
    pollers = {each.identity: each.last_access_time.ToDatetime(UTC) for each in seen.pollers}
    builds = {each.identity: build for each in seen.pollers if (build := _build_of(each))}
    routes = seen.versioning_info.current_deployment_version, seen.versioning_info.ramping_deployment_version
    serving = [build_name(each) for each in routes if each.build_id]
    return Queue(name, kind, pollers, seen.stats.approximate_backlog_count, max(age, 0.0), builds, serving)


def build_name(version: WorkerDeploymentVersion) -> str:
    """A build as Temporal's lists and commands name it."""
    return f"{version.deployment_name}:{version.build_id}"


def _build_of(poller: PollerInfo) -> str | None:
    given = poller.deployment_options
    if given.worker_versioning_mode != WorkerVersioningMode.WORKER_VERSIONING_MODE_VERSIONED:
        return None
    return f"{given.deployment_name}:{given.build_id}"
