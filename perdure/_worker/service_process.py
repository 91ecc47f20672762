"""Services without a worker: `perdure services package.module:app`, for fleets whose workers leave them to others
(PERDURE_RELAY, PERDURE_RECONCILIATION and PERDURE_GAUGES = false)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Collection
from contextlib import AsyncExitStack, asynccontextmanager
from enum import StrEnum
from functools import partial

from temporalio.client import Client
from temporalio.runtime import Runtime

from perdure._pulse import Pulse
from perdure._reconcile.hosting import reconciliation_worker
from perdure._reconcile.trigger import ReconciliationTrigger
from perdure._reconcile.watch import Watch
from perdure._services.gauges import Gauges
from perdure._services.health import EventLoop, Health
from perdure._services.ownership.exchange import Exchange, plain
from perdure._services.ownership.ownership import Ownership
from perdure._services.queue_gauges import QueueGauges
from perdure._services.relay import relaying
from perdure._services.service import Service
from perdure._services.services import Services
from perdure._store.postgres import Database, Pool
from perdure._store.schema.kinds import Kind
from perdure._store.schema.rights import permitted
from perdure._worker.plugin import PerdurePlugin
from perdure._worker.preparing import patiently, prepare
from perdure._worker.serving import probes, serving
from perdure._worker.worker import before, staying_connected, stop_requested
from perdure.app import App
from perdure.errors import InvalidSetting
from perdure.logs import log_event
from perdure.settings import Settings
from perdure.telemetry.exporting import exporting
from perdure.telemetry.metrics import meter_of

log = logging.getLogger("perdure.worker")


class Task(StrEnum):
    """The tasks of such a process."""

    RELAY = "relay"
    RECONCILIATION = "reconciliation"
    GAUGES = "gauges"


class ServiceProcess:
    """Executes these tasks until SIGTERM or SIGINT. No workflow starts eagerly, because the lifecycles run
    elsewhere.

    Raises:
        InvalidSetting: an effect or a look-up declares the task queue, so the workers there run no lifecycle.
    """

    def __init__(self, app: App, config: Settings, tasks: Collection[Task]) -> None:
        if config.task_queue in app.task_queues:
            raise InvalidSetting(
                f"PERDURE_TASK_QUEUE={config.task_queue!r} is a task queue of effects: give the one of the lifecycles"
            )
        self._app = app
        self._config = config
        self._tasks = [each for each in Task if each in tasks]
        self._health = Health("services")
        self._ready = asyncio.Event()

    async def run(self) -> None:
        """Run the process until it is stopped."""
        health = self._config.health
        with (
            exporting(self._config) as runtime,
            serving(f"PERDURE_HEALTH={health!r}", health, probes(self._health)),
        ):
            await self._run(runtime)

    async def _run(self, runtime: Runtime) -> None:
        stop, loop = stop_requested(), EventLoop()
        self._health.watch([loop.pulse])
        await loop.start()
        plugin = PerdurePlugin(self._app, self._config)
        async with staying_connected(plugin, stop, runtime, self._health) as client:
            if client is not None:
                await self._serve(client, stop)
        await loop.stop()

    async def _serve(self, client: Client, stop: asyncio.Task[bool]) -> None:
        serving = asyncio.create_task(self._until(stop, client))
        if not await before(stop, asyncio.create_task(self._ready.wait()), serving):
            return
        if not serving.done():
            tasks = ",".join(self._tasks)
            log_event(log, "running", services=tasks, task_queue=self._config.queue, scope=self._config.scope)
        await serving
        log_event(log, "stopped")

    async def _until(self, stop: asyncio.Task[bool], client: Client) -> None:
        database = Database(self._config.database_url, most=self._config.connections, closed_path=True)
        pool = await database.open()
        kind = Kind.WORKER if Task.RECONCILIATION in self._tasks else Kind.RELAY
        try:
            await patiently(partial(_check, pool, kind))
            async with self._running(pool, client):
                self._health.runs()
                self._ready.set()
                await asyncio.wait({stop})
                self._health.stops()
                log_event(log, "stopping")
        finally:
            await database.close()

    @asynccontextmanager
    async def _running(self, pool: Pool, client: Client) -> AsyncIterator[None]:
        services = Services()
        exchange, keeper = Exchange(client, self._config), Pulse("keeper")
        async with AsyncExitStack() as stack:
            await stack.enter_async_context(exchange.answering(keeper))
            ownership = Ownership(pool, exchange, services.nudge)
            await patiently(ownership.claim)
            stack.push_async_callback(services.stop)
            await services.start(ownership, *self._services(pool, client))
            self._health.watch([keeper, *services.pulses])
            if Task.RECONCILIATION in self._tasks:
                pulse, meter = Pulse("reconciliation"), meter_of(client)
                self._health.watch([pulse])
                hosted = reconciliation_worker(pool, plain(client), self._app, self._config, meter, pulse)
                await stack.enter_async_context(hosted)
            yield

    def _services(self, pool: Pool, client: Client) -> list[Service]:
        app, config, meter = self._app, self._config, meter_of(client)
        services: list[Service] = []
        if Task.RELAY in self._tasks:
            services += relaying(pool, client, app, config, meter)
        if Task.RECONCILIATION in self._tasks:
            services.append(ReconciliationTrigger(pool, client, config))
            if config.reconciliation_every:
                services.append(Watch(pool, plain(client), app, config, meter))
        if Task.GAUGES in self._tasks and meter is not None:
            services += [Gauges(pool, app, config, meter), QueueGauges(client, app, config, meter)]
        return services


async def _check(pool: Pool, kind: Kind) -> None:
    async with pool.acquire() as connection, permitted(connection, kind):
        await prepare(connection, kind)
