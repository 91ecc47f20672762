"""`PerdurePlugin`: makes any Temporal worker run an app's lifecycles: `Worker(..., plugins=[PerdurePlugin(app)])`."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, nullcontext, suppress
from datetime import timedelta
from functools import partial
from typing import Any

import temporalio.client
import temporalio.worker
import temporalio.workflow
from temporalio.client import ClientConfig, WorkflowHistory
from temporalio.common import MetricMeter
from temporalio.contrib.pydantic import PydanticPayloadConverter
from temporalio.converter import DataConverter, DefaultPayloadConverter
from temporalio.service import ConnectConfig, ServiceClient
from temporalio.worker import (
    Replayer,
    ReplayerConfig,
    UnsandboxedWorkflowRunner,
    Worker,
    WorkerConfig,
    WorkflowReplayResult,
    WorkflowRunner,
)
from temporalio.worker.workflow_sandbox import SandboxedWorkflowRunner

from perdure._activity.hosting import Activities
from perdure._crypto.codec import Codec, encrypting, encrypts
from perdure._pulse import Pulse
from perdure._reconcile.expected import Expected
from perdure._reconcile.hosting import reconciliation_worker
from perdure._reconcile.trigger import ReconciliationTrigger
from perdure._reconcile.watch import Watch
from perdure._services.follower import Follower
from perdure._services.gauges import Gauges
from perdure._services.guarded import GuardedRunner
from perdure._services.health import Health
from perdure._services.ownership.exchange import Exchange, plain
from perdure._services.ownership.ownership import Ownership
from perdure._services.polling import Polling
from perdure._services.queue_gauges import QueueGauges
from perdure._services.queues import is_of_effects
from perdure._services.relay import relaying
from perdure._services.service import EXPECTED_ERRORS, Service
from perdure._services.services import Services
from perdure._store.one_database import check_same_database
from perdure._store.postgres import Database, Pool, PostgresStore
from perdure._store.schema.kinds import Kind
from perdure._store.schema.rights import permitted
from perdure._wire.writes import Store
from perdure._worker.build import has_run
from perdure._worker.code_failures import CodeFailures, Listener
from perdure._worker.columns import prepare as prepare_columns
from perdure._worker.determinism import Unreadable, check
from perdure._worker.limited import run_with_limits
from perdure._worker.payloads import Payloads
from perdure._worker.preparing import patiently, prepare
from perdure._worker.record import check_records
from perdure._worker.sandbox import SampledRunner
from perdure._workflow.lifecycle import Lifecycle
from perdure.app import App
from perdure.contracts.keys import Entity
from perdure.contracts.scopes import scope_of_queue, scope_setting
from perdure.errors import DeclarationError, PerdureError
from perdure.settings import Settings, settings
from perdure.telemetry import traces
from perdure.telemetry.metrics import meter_of

REPORTING = 3.0
"""Seconds beyond the grace time, in which interrupted attempts are reported as in doubt."""
_BEATS = timedelta(seconds=1)
"""The SDK holds heartbeats back for so long at most, in place of four fifths of their time-out: a worker that stands
still for the last fifth would count as lost."""
_LAST_LOOK = 2.0


class PerdurePlugin(temporalio.client.Plugin, temporalio.worker.Plugin):
    """Adds an app's lifecycles, effects, relay and follower to a worker, and the data converter to a client.

    Args:
        app: the registry.
        config: the settings; None = from the environment.

    Example:
        >>> from perdure import App, Settings
        >>> PerdurePlugin(App([], []), Settings(scope="shop")).config.queue
        'perdure:shop'
    """

    def __init__(self, app: App, config: Settings | None = None) -> None:
        self.app = app
        self.config: Settings = config or settings()
        encrypts(self.config)  # unusable keys fail now, and not at the first task
        self.ready: asyncio.Event = asyncio.Event()
        """Set once the database is reachable and fits, and the worker takes work."""
        self._store: PostgresStore | None = None
        self._resources: Any = None
        self._services = Services()
        self.health: Health = Health()
        """The reports of this worker's services. `perdure worker` serves them at PERDURE_HEALTH."""
        self._code_failures: CodeFailures | None = None
        self._reconciliations: ReconciliationTrigger | None = None
        self._follower: Follower | None = None
        self._sampled: SampledRunner | None = None

    def configure_client(self, config: ClientConfig) -> ClientConfig:
        """See base class."""
        config["data_converter"] = encrypting(_pydantic(config.get("data_converter")), self.config)
        if (tracing := traces.interceptor(config["interceptors"])) is not None:
            config["interceptors"] = [*config["interceptors"], tracing]
        return config

    async def connect_service_client(
        self, config: ConnectConfig, next: Callable[[ConnectConfig], Awaitable[ServiceClient]]
    ) -> ServiceClient:
        """See base class."""
        return await next(config)

    def configure_worker(self, config: WorkerConfig) -> WorkerConfig:
        """See base class.

        Raises:
            DeclarationError: the worker's task queue belongs to another scope, or its client has a data converter that
                cannot convert Perdure's models, or does not encrypt although there are keys.
        """
        if scope_of_queue(config["task_queue"]) != self.config.scope:
            raise DeclarationError(
                f"task_queue={config['task_queue']!r} is not of this scope "
                f"({scope_setting(self.config.scope)}): give the worker task_queue=plugin.config.queue"
            )
        client = config["client"].config(active_config=True)
        converter = client["data_converter"]
        if not issubclass(converter.payload_converter_class, PydanticPayloadConverter):
            raise DeclarationError(
                "the worker's client can't carry perdure's models: connect it with "
                "Client.connect(..., plugins=[PerdurePlugin(app)]) or data_converter=pydantic_data_converter"
            )
        codec = converter.payload_codec
        if (codec is None or (isinstance(codec, Codec) and not codec.encrypting)) and encrypts(self.config):
            raise DeclarationError(
                "the worker's client does not encrypt, and there are keys (PERDURE_KEYS): connect it with "
                "Client.connect(..., plugins=[PerdurePlugin(app)]), or set PERDURE_ENCRYPT=false"
            )
        if not config.get("graceful_shutdown_timeout"):
            # By default, Temporal cancels every activity at once, before it can report.
            config["graceful_shutdown_timeout"] = timedelta(seconds=self.config.graceful_shutdown_timeout + REPORTING)
        config["max_heartbeat_throttle_interval"] = min(config.get("max_heartbeat_throttle_interval", _BEATS), _BEATS)
        activities = Activities(
            self.app,
            self._running_store,
            scope=self.config.scope,
            grace=self.config.graceful_shutdown_timeout,
            resources=lambda: self._resources,
        )
        if not self._is_of_effects(config["task_queue"]):
            config["workflows"] = [*config.get("workflows", ()), *self.app.lifecycles.values()]
        config["activities"] = [*config.get("activities", ()), *activities.all()]
        config["workflow_runner"] = GuardedRunner(self._runner(config.get("workflow_runner")))
        plain_runner = config.get("unsandboxed_workflow_runner") or UnsandboxedWorkflowRunner()
        config["unsandboxed_workflow_runner"] = GuardedRunner(plain_runner)
        given = [*config.get("interceptors", ()), Listener(self._report_code_failure, self._ask)]
        config["interceptors"] = given
        if (tracing := traces.interceptor([*client["interceptors"], *given])) is not None:
            config["interceptors"] = [*given, tracing]
        return config

    async def run_worker(self, worker: Worker, next: Callable[[Worker], Awaitable[None]]) -> None:
        """See base class."""
        database = Database(self.config.database_url, most=self.config.connections, closed_path=True)
        # Triggers of the app may set parameters of their session, which must stop no write (invariant 8).
        column_url = self.config.column_database_url or self.config.database_url
        writing = Database(column_url, most=1, closed_path=True, triggers=True)
        pool = await database.open()
        try:
            columns = await writing.open()
            await patiently(partial(_check, pool, self.app, columns, partial(has_run, worker)))
            exchange, keeper = Exchange(worker.client, self.config), Pulse("keeper")
            self.health.watch([keeper])
            async with exchange.answering(keeper):
                ownership = Ownership(pool, exchange, self._services.nudge)
                await patiently(ownership.claim)
                async with self._lifespan() as self._resources:
                    await self._run_services(pool, columns, worker, ownership)
                    if self._is_of_effects(worker.task_queue):
                        await next(worker)
                    else:
                        async with self._reconciling(pool, worker):
                            await run_with_limits(worker, self.app.limits, next)
        finally:
            await self.stop_services()
            await self._show_the_last()
            await writing.close()
            await database.close()

    def _is_of_effects(self, task_queue: str) -> bool:
        return is_of_effects(task_queue, self.app, self.config)

    def _runner(self, given: WorkflowRunner | None) -> WorkflowRunner:
        """The runner that executes workflows.

        Raises:
            DeclarationError: a lifecycle is not deterministic.
        """
        unread = frozenset(name for name, each in self.app.lifecycles.items() if not _is_read(each))
        runner = _passing_through(given, self.app)
        if not isinstance(runner, SandboxedWorkflowRunner) or self.config.workflow_sandbox == "always":
            return runner
        if self.config.workflow_sandbox == "never":
            return UnsandboxedWorkflowRunner()
        self._sampled = SampledRunner(runner, unread)
        return self._sampled

    def _lifespan(self) -> AbstractAsyncContextManager[Any]:
        return self.app.lifespan(self.config) if self.app.lifespan else nullcontext()

    async def _run_services(self, pool: Pool, columns: Pool, worker: Worker, ownership: Ownership) -> None:
        meter = meter_of(worker.client)
        self._follower = Follower(columns)
        self._store = PostgresStore(pool, meter, ownership.nudge, self._moved)
        self._code_failures = CodeFailures(pool)
        self._reconciliations = ReconciliationTrigger(pool, worker.client, self.config)
        beside = [] if self._is_of_effects(worker.task_queue) else self._beside(pool, worker, meter)
        await self._services.start(ownership, self._follower, self._code_failures, self._reconciliations, *beside)
        self.health.watch(self._services.pulses)
        self.health.runs()
        self.ready.set()

    def _beside(self, pool: Pool, worker: Worker, meter: MetricMeter | None) -> list[Service]:
        """The services that other processes of the fleet can run as well, and those for probes."""
        client, config = worker.client, self.config
        services = relaying(pool, client, self.app, config, meter) if config.relay else []
        if meter is not None and config.gauges:
            services += [Gauges(pool, self.app, config, meter), QueueGauges(client, self.app, config, meter)]
        if config.reconciliation and config.reconciliation_every:
            services.append(Watch(pool, plain(client), self.app, config, meter))
        if config.health is not None:
            identity = worker.config(active_config=True).get("identity") or client.identity
            services.append(Polling(client, worker.task_queue, identity))
        return services

    def _reconciling(self, pool: Pool, worker: Worker) -> AbstractAsyncContextManager[None]:
        if not self.config.reconciliation:
            return nullcontext()
        pulse = Pulse("reconciliation")
        self.health.watch([pulse])
        return reconciliation_worker(pool, plain(worker.client), self.app, self.config, meter_of(worker.client), pulse)

    def _moved(self, lifecycle: str) -> None:
        if self._follower is not None and self.app.lifecycles[lifecycle].mirror is not None:
            self._follower.nudge()

    async def stop_services(self) -> None:
        """Stop relay, follower and gauges. Begin with this when a worker stops, so that it begins nothing new."""
        self.health.stops()
        await self._services.stop()

    async def _show_the_last(self) -> None:
        """Show states that were entered while the worker stopped, so that they need not wait for another worker."""
        if self._follower is not None:
            showing = asyncio.create_task(self._follow(self._follower))
            await asyncio.wait({showing}, timeout=_LAST_LOOK)
            showing.cancel()  # and not awaited: its connection is closed next

    async def _follow(self, follower: Follower) -> None:
        with suppress(*EXPECTED_ERRORS):
            while await follower.once():
                pass

    def configure_replayer(self, config: ReplayerConfig) -> ReplayerConfig:
        """See base class."""
        reading = self.config.model_copy(update={"encrypt": False})  # nothing is sent, and the reason must be readable
        config["data_converter"] = encrypting(_pydantic(config.get("data_converter")), reading)
        config["workflows"] = [*config.get("workflows", ()), *self.app.lifecycles.values()]
        config["workflow_runner"] = _passing_through(config.get("workflow_runner"), self.app)
        return config

    def run_replayer(
        self,
        replayer: Replayer,
        histories: AsyncIterator[WorkflowHistory],
        next: Callable[
            [Replayer, AsyncIterator[WorkflowHistory]],
            AbstractAsyncContextManager[AsyncIterator[WorkflowReplayResult]],
        ],
    ) -> AbstractAsyncContextManager[AsyncIterator[WorkflowReplayResult]]:
        """See base class."""
        return next(replayer, histories)

    def _report_code_failure(self, entity: Entity, why: str) -> None:
        if self._sampled is not None:
            self._sampled.watch(entity.lifecycle)
        if self._code_failures is not None:
            self._code_failures.report(entity, why)

    def _ask(self, entity: Entity, why: str) -> None:
        if self._reconciliations is not None:
            self._reconciliations.ask(entity, why)

    def _running_store(self) -> Store:
        if self._store is None:
            raise PerdureError("the worker does not run yet")
        return self._store


def _pydantic(given: DataConverter | None) -> DataConverter:
    """The converter for Pydantic in place of the default one, with the same codec."""
    given = given or DataConverter.default
    if given.payload_converter_class in (DefaultPayloadConverter, PydanticPayloadConverter):
        return dataclasses.replace(given, payload_converter_class=Payloads)
    return given


def _passing_through(given: WorkflowRunner | None, app: App) -> WorkflowRunner:
    """The runner with modules that pass through the sandbox: contracts and models are imported once, and not for each
    run. The restrictions of the sandbox stay."""
    runner = given or SandboxedWorkflowRunner()
    if not isinstance(runner, SandboxedWorkflowRunner):
        return runner
    modules = {contract.module for contract, _ in app.bodies.values()}
    modules |= {module for each in app.lifecycles.values() if (module := _module_of_input(each)) != each.__module__}
    restrictions = runner.restrictions.with_passthrough_modules(
        *("perdure", "pydantic", "pydantic_core", "annotated_types", "opentelemetry"),
        "asyncpg",  # its C code crashes the process at a second import, which the sandbox would make
        *modules,
    )
    return dataclasses.replace(runner, restrictions=restrictions)


def _is_read(lifecycle: type[Lifecycle[Any, Any]]) -> bool:
    """Whether the lifecycle's code was read and no error was found. With `sandboxed=False`, the author has declared it
    deterministic.

    Raises:
        DeclarationError: the code is not deterministic, or forgets an await.
    """
    if not temporalio.workflow._Definition.must_from_class(lifecycle).sandboxed:
        return True
    try:
        check(lifecycle)
    except Unreadable:
        return False
    return True


def _module_of_input(lifecycle: type[Lifecycle[Any, Any]]) -> str:
    return str(getattr(lifecycle.input._type, "__module__", "builtins"))


async def _check(pool: Pool, app: App, columns: Pool, has_run: Callable[[], Awaitable[bool]]) -> None:
    """Check the schema, the declared columns of the app, and that the code has all states of open entities."""
    declared = {name: lifecycle.mirror for name, lifecycle in app.lifecycles.items()}
    async with pool.acquire() as connection, permitted(connection, Kind.WORKER):
        await prepare(connection, Kind.WORKER)
        await check_records(connection, app.lifecycles, has_run)
        for name, lifecycle in app.lifecycles.items():
            if lifecycle.expects is not None:
                await Expected(name, lifecycle.expects).check(connection)
        async with columns.acquire() as writer:
            await check_same_database(connection, writer, "PERDURE_COLUMN_DATABASE_URL")
            await prepare_columns(connection, writer, declared)
