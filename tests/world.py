"""A world of its own for one test: database, scope, task queue, counterparty, workers in this process or others."""

from __future__ import annotations

import asyncio
import os
import secrets
import signal
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any
from uuid import uuid4

import asyncpg
import psutil
import temporalio.client
from temporalio.api.workflowservice.v1 import DescribeNamespaceRequest, SetWorkerDeploymentCurrentVersionRequest
from temporalio.client import WorkflowQueryFailedError
from temporalio.service import RPCError, RPCStatusCode

from perdure import App, Client, PerdurePlugin, Settings
from perdure._reconcile import trigger, watch
from perdure._services.guarded import TASK_WAITS
from perdure._wire.requests import TakenOver
from perdure._worker.worker import new_identity, new_worker
from perdure.client import LifecycleStatus
from perdure.servers.postgres import PostgresServer
from perdure.servers.temporal import TemporalServer, obtain_temporal
from tests.counterparty import Counterparty
from tests.deadline import DEADLINE, in_time, until
from tests.forked import Forked
from tests.running import running

LONG = timedelta(minutes=20)
"""A timer of this length does not fire during a test."""

trigger.FIRST = 3600.0, 3600.0
watch.EVERY = 3600.0
# No worker of this process mends anything by the clock in the middle of a test, however long that takes.

_UNANSWERED = (RPCStatusCode.FAILED_PRECONDITION, RPCStatusCode.CANCELLED, RPCStatusCode.DEADLINE_EXCEEDED)
_ENDS = (
    *(f"activity_task_{end}" for end in ("completed", "failed", "timed_out", "canceled")),
    *(f"timer_{end}" for end in ("fired", "canceled")),
)
"""Events that end an activity or a timer."""


def _is_at_rest(history: temporalio.client.WorkflowHistory) -> bool:
    """Whether nothing is under way that begins a workflow task: no task, no activity, and no timer that is due soon."""
    under_way, in_task = set[int](), False
    for event in history.events:
        in_task = (in_task or event.HasField("workflow_task_scheduled_event_attributes")) and not event.HasField(
            "workflow_task_completed_event_attributes"
        )
        if event.HasField("activity_task_scheduled_event_attributes"):
            under_way.add(event.event_id)
        if event.HasField("timer_started_event_attributes"):
            timer = event.timer_started_event_attributes
            if timer.start_to_fire_timeout.ToTimedelta() < LONG:
                under_way.add(event.event_id)
        for end in _ENDS:
            if event.HasField(f"{end}_event_attributes"):  # type: ignore[arg-type]
                ended = getattr(event, f"{end}_event_attributes")
                under_way.discard(ended.started_event_id if end.startswith("timer") else ended.scheduled_event_id)
    return not under_way and not in_task


async def answer_to(
    handle: temporalio.client.WorkflowHandle[Any, Any], query: Any, **options: Any
) -> tuple[Any] | None:
    """The answer of a workflow to a query; None while there is none: a new run has no workflow task yet, one waits for
    the worker that has the query, or a busy worker does not answer in time."""
    try:
        return (await handle.query(query, **options),)
    except WorkflowQueryFailedError as failed:
        if failed.message != TASK_WAITS:
            raise
    except RPCError as error:
        if error.status not in _UNANSWERED:
            raise
    return None


class World:
    """Everything that one test needs; made by the fixture `world`.

    Attributes:
        db: a connection of the test's own, as an app would have it.
        temporal_client: Temporal client with the app's plugin.
        client: perdure's client.
        counterparty: the other side.
    """

    def __init__(self, postgres: PostgresServer, temporal: TemporalServer, database: str, folder: Path) -> None:
        self.postgres = postgres
        self.temporal = temporal
        self.folder = folder
        self.scope = "s" + secrets.token_hex(4)
        self.dsn = postgres.dsn(database)
        self.config = Settings(
            database_url=self.dsn,
            scope=self.scope,
            relay_poll_interval=0.05,
            graceful_shutdown_timeout=2.0,
            reconciliation_every=0.0,  # none may begin in the middle of a long test
        )
        self.counterparty = Counterparty()
        self.workers: list[WorkerProcess] = []
        self.db: asyncpg.Connection[asyncpg.Record]
        self.temporal_client: temporalio.client.Client
        self.client: Client

    @asynccontextmanager
    async def made(self, app: App) -> AsyncIterator[World]:
        """Open its connections; close them, and end its workers, at the end."""
        self.db = await asyncpg.connect(self.dsn)
        plugin = PerdurePlugin(app, self.config)
        self.temporal_client = await until(lambda: self._connected(plugin), "Temporal serves")
        async with AsyncExitStack() as stack:
            await stack.enter_async_context(self.counterparty.serving())
            self.client = await until(
                lambda: stack.enter_async_context(
                    Client.connect(self.config, temporal_client=self.temporal_client, app=app)
                ),
                "PostgreSQL answers",
            )
            os.environ["COUNTERPARTY_PORT"] = str(self.counterparty.port)
            try:
                yield self
            finally:
                for worker in self.workers:
                    await worker.end()
                await self.db.close()

    async def _connected(self, plugin: PerdurePlugin) -> temporalio.client.Client | None:
        """A client; None while the server is stuck or started again (`perdure.servers.healing`)."""
        try:
            client = await temporalio.client.Client.connect(self.temporal.address, plugins=[plugin])
            await client.workflow_service.describe_namespace(DescribeNamespaceRequest(namespace="default"))
        except (RPCError, RuntimeError):
            return None
        return client

    @asynccontextmanager
    async def worker(self, app: App, **settings: Any) -> AsyncIterator[temporalio.client.Client]:
        """A worker in this process."""
        config = self.config.model_copy(update=settings)
        plugin = PerdurePlugin(app, config)
        client = await temporalio.client.Client.connect(
            self.temporal.address, plugins=[plugin], identity=new_identity()
        )
        async with running(new_worker(client, config)):
            await in_time(plugin.ready.wait())
            yield client

    async def spawn(self, app: str = "tests.apps.bodies:app", **environment: str) -> WorkerProcess:
        """A worker process, that runs when this returns."""
        worker = WorkerProcess(self, app, environment)
        self.workers.append(worker)
        await worker.start()
        return worker

    async def servers_are_back(self) -> None:
        """Start what was stopped, thaw what was frozen, and connect the test again."""
        await asyncio.to_thread(self.postgres.start)
        await asyncio.to_thread(self.temporal.start)
        self.temporal.resume()
        if self.db.is_closed():
            self.db = await asyncpg.connect(self.dsn)

    def environment(self) -> dict[str, str]:
        """The environment of a process that works in this world."""
        return {
            **os.environ,
            "PERDURE_DATABASE_URL": self.config.database_url,
            "PERDURE_SCOPE": self.scope,
            "PERDURE_RELAY_POLL_INTERVAL": "0.05",
            "PERDURE_GRACEFUL_SHUTDOWN_TIMEOUT": str(self.config.graceful_shutdown_timeout),
            "PERDURE_RECONCILIATION_EVERY": str(self.config.reconciliation_every),
            "TEMPORAL_ADDRESS": self.temporal.address,
            "COUNTERPARTY_PORT": str(self.counterparty.port),
        }

    def handle(self, lifecycle: str, entity_id: object) -> temporalio.client.WorkflowHandle[Any, Any]:
        """Temporal's handle of an entity's workflow."""
        return self.temporal_client.get_workflow_handle(f"{self.scope}:{lifecycle}/{entity_id}")

    async def temporal_command(self, *arguments: str) -> str:
        """Run the `temporal` command against this world's server; its output."""
        command = [str(await asyncio.to_thread(obtain_temporal)), *arguments, "--address", self.temporal.address]
        process = await asyncio.create_subprocess_exec(
            *command, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
        )
        output, _ = await in_time(process.communicate())
        assert process.returncode == 0, output.decode()
        return output.decode()

    async def asked(self, lifecycle: str, entity_id: object = "a") -> LifecycleStatus:
        """The answer to its query `status`, once its workflow has started."""
        await self.until_delivered(lifecycle, entity_id)
        return LifecycleStatus.model_validate(await self.query(lifecycle, entity_id, "status"))

    async def until_delivered(self, lifecycle: str, entity_id: object) -> None:
        """Wait until its workflow has started."""

        async def delivered() -> bool:
            return not (await self.client.status(lifecycle, entity_id)).waits_for_delivery

        await self.until(delivered, f"{lifecycle}/{entity_id} delivered")

    async def at_rest(self, lifecycle: str, entity_id: object = "a") -> LifecycleStatus | None:
        """Its `status`, if no workflow task is under way or can begin by itself; None otherwise.

        For workers without a cache: the SDK may lose the workflow task of a run that is queried meanwhile, and then
        neither answers nor stops.
        """
        await self.until_delivered(lifecycle, entity_id)
        history = await self.handle(lifecycle, entity_id).fetch_history()
        if not _is_at_rest(history):
            return None
        return await self.asked(lifecycle, entity_id)

    async def parked(self, lifecycle: str, entity_id: object = "a") -> None:
        """Wait until an effect is parked in its workflow: after a lost workflow task later than in its record."""

        async def is_parked() -> bool:
            return any(each.parked for each in (await self.asked(lifecycle, entity_id)).effects)

        await self.until(is_parked, f"{lifecycle}/{entity_id} parked")

    async def query(self, lifecycle: str, entity_id: object, name: Any, **options: Any) -> Any:
        """The answer of an entity to a query; see `answer_of`."""
        return await self.answer_of(self.handle(lifecycle, entity_id), name, **options)

    async def answer_of(self, handle: temporalio.client.WorkflowHandle[Any, Any], query: Any, **options: Any) -> Any:
        """The answer of a workflow to a query, asked again until there is one; see `answer_to`."""
        answered = partial(answer_to, handle, query, **options)
        (answer,) = await self.until(answered, f"{handle.id} answers the query {query}")
        return answer

    async def update(self, lifecycle: str, entity_id: object, name: Any, given: object) -> Any:
        """The answer to an update. If a worker or a workflow task was lost, its sender has to send it again: with the
        same id if nobody knows whether it was executed."""
        update_id = str(uuid4())

        async def answered() -> tuple[Any] | None:
            nonlocal update_id
            try:
                return (await self.handle(lifecycle, entity_id).execute_update(name, given, id=update_id),)
            except temporalio.client.WorkflowUpdateFailedError as refused:
                if not TakenOver.is_reason(refused.cause):
                    raise
                update_id = str(uuid4())
            except RPCError as error:
                if error.status is not RPCStatusCode.FAILED_PRECONDITION:
                    raise
            return None

        (answer,) = await self.until(answered, f"{lifecycle}/{entity_id} answers the update {name}")
        return answer

    async def states(self, lifecycle: str, entity_id: object) -> list[str]:
        """The entity's transitions on record, oldest first."""
        rows = await self.db.fetch(
            "select state from perdure.transition where lifecycle = $1 and id = $2 order by generation, version, at",
            lifecycle,
            str(entity_id),
        )
        return [row["state"] for row in rows]

    async def ended(self, lifecycle: str, entity_id: object) -> str:
        """Wait for its final state, and return that."""
        return (await self.client.wait(lifecycle, entity_id, timeout=timedelta(seconds=DEADLINE))).state

    async def completed(self, lifecycle: str, entity_id: object) -> None:
        """Wait until Temporal has closed its workflow as well, which follows the final state."""

        async def is_completed() -> bool:
            described = await self.handle(lifecycle, entity_id).describe()
            return described.status is temporalio.client.WorkflowExecutionStatus.COMPLETED

        await self.until(is_completed, f"{lifecycle}/{entity_id} completed")

    @asynccontextmanager
    async def holding(self, table: str) -> AsyncIterator[None]:
        """Keep everybody from writing to `table` for as long as the context lasts."""
        keeper = await asyncpg.connect(self.dsn)
        try:
            async with keeper.transaction():
                await keeper.execute(f"lock table {table} in share mode")
                yield
        finally:
            await keeper.close()

    async def held_up(self) -> None:
        """Wait until a write of a lifecycle waits for a lock."""
        waits = (
            "select exists (select from pg_stat_activity where datname = current_database() "
            "and query like '%apply_writes%' and wait_event_type = 'Lock')"
        )
        await self.until(lambda: self.db.fetchval(waits), "a write of perdure's that waits for a lock")

    async def make_current(self, deployment: str) -> None:
        """Make a version `name:build` the current one of its worker deployment."""
        name, build = deployment.split(":")[:2]
        request = SetWorkerDeploymentCurrentVersionRequest(namespace="default", deployment_name=name, build_id=build)

        async def set_it() -> bool:
            try:
                await self.temporal_client.workflow_service.set_worker_deployment_current_version(request)
            except RPCError as error:  # its worker has not asked for work yet
                if error.status not in (RPCStatusCode.NOT_FOUND, RPCStatusCode.FAILED_PRECONDITION):
                    raise
                return False
            return True

        await self.until(set_it, f"{deployment} is current")

    async def mark_grows_old(self) -> None:
        """Let the last exchange of the database's mark be a minute ago, so that the next one is due."""
        await self.db.execute("update perdure.database set exchanged_at = exchanged_at - interval '1 min'")

    async def until(self, holds: Callable[[], Any], what: str, *, every: float = 0.02) -> Any:
        """Poll until `holds()` (maybe a coroutine) is true; see `tests.deadline.until`."""
        return await until(holds, what, every=every)

    async def is_in(self, lifecycle: str, entity_id: object, state: str) -> None:
        """Wait until the mirror shows `state`."""

        async def shows() -> bool:
            return (await self.client.status(lifecycle, entity_id)).state == state

        await self.until(shows, f"{lifecycle}/{entity_id} in {state!r}")


class WorkerProcess:
    """`perdure worker` in a process of its own; `forked` = forked from a process that has imported the libraries."""

    forked = True

    def __init__(self, world: World, app: str, environment: dict[str, str]) -> None:
        self._world = world
        self.app = app
        self._environment = {**world.environment(), "PERDURE_LOG": "text", **environment}
        self.log = world.folder / f"worker-{secrets.token_hex(3)}.log"
        self._process: asyncio.subprocess.Process | Forked | None = None

    @property
    def pid(self) -> int:
        """Its process id."""
        assert self._process is not None
        return self._process.pid

    async def start(self) -> None:
        """Start it and wait until it runs."""
        await self.launch()
        await self._world.until(self._runs, f"worker runs, see {self.log}")

    async def launch(self) -> None:
        """Start it, without waiting until it runs."""
        if self.forked:
            self._process = Forked(["worker", self.app], self._environment, self.log)
            return
        with self.log.open("wb") as log:
            self._process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "perdure.cli", "worker", self.app),
                env=self._environment,
                stderr=log,
                stdout=log,
            )

    def send(self, number: signal.Signals) -> None:
        """Send it a signal."""
        assert self._process is not None
        self._process.send_signal(number)

    async def kill(self) -> None:
        """SIGKILL, and wait until it is gone."""
        self.send(signal.SIGKILL)
        await self.gone()

    async def freeze(self) -> None:
        """SIGSTOP, and wait until it stands still."""
        self.send(signal.SIGSTOP)
        await self._world.until(lambda: psutil.Process(self.pid).status() == psutil.STATUS_STOPPED, "frozen")

    def thaw(self) -> None:
        """SIGCONT."""
        self.send(signal.SIGCONT)

    async def stop(self) -> int:
        """SIGTERM; returns its exit status."""
        self.send(signal.SIGTERM)
        return await self.gone()

    async def gone(self, within: float = DEADLINE) -> int:
        """Wait until it has ended; returns its exit status."""
        assert self._process is not None
        return await asyncio.wait_for(self._process.wait(), within)

    async def end(self) -> None:
        """Make sure that it is gone."""
        if self._process is not None and self._process.returncode is None:
            self.send(signal.SIGCONT)
            await self.kill()

    def text(self) -> str:
        """What it has logged."""
        return self.log.read_text() if self.log.exists() else ""

    def _runs(self) -> bool:
        assert self._process is not None
        ended, text = self._process.returncode, self.text()
        assert ended is None, f"the worker ended: {text}"
        return "perdure.worker: running" in text


class FreshWorkerProcess(WorkerProcess):
    """The same, started by a new interpreter as in production."""

    forked = False
