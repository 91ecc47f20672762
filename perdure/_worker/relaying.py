"""A relay without a worker: `perdure relay package.module:app`, for fleets whose workers have PERDURE_RELAY=false."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from temporalio.client import Client
from temporalio.runtime import Runtime

from perdure._services.ownership.exchange import Exchange
from perdure._services.ownership.ownership import Ownership
from perdure._services.services import Services, delivering
from perdure._store.postgres import Database, Pool
from perdure._store.schema.kinds import Kind
from perdure._store.schema.rights import permitted
from perdure._worker.plugin import PerdurePlugin
from perdure._worker.preparing import prepare
from perdure._worker.worker import before, staying_connected, told_to_stop
from perdure.app import App
from perdure.logs import says
from perdure.settings import Settings
from perdure.telemetry.exporting import exporting
from perdure.telemetry.metrics import meter_of

log = logging.getLogger("perdure.worker")


async def run_relay(app: App, config: Settings) -> None:
    """Deliver until SIGTERM or SIGINT. Nothing starts eagerly: the lifecycles run elsewhere."""
    with exporting(config) as runtime:
        await _run(app, config, runtime)


async def _run(app: App, config: Settings, runtime: Runtime) -> None:
    stop = told_to_stop()
    plugin = PerdurePlugin(app, config)
    async with staying_connected(plugin, stop, runtime) as client:
        if client is not None:
            await _relay(app, config, client, stop)


async def _relay(app: App, config: Settings, client: Client, stop: asyncio.Task[bool]) -> None:
    ready = asyncio.Event()
    relaying = asyncio.create_task(_relay_until(stop, app, config, client, ready))
    if not await before(stop, asyncio.create_task(ready.wait()), relaying):
        return
    if not relaying.done():
        says(log, "running", relay="alone", task_queue=config.queue, scope=config.scope)
    await relaying
    says(log, "stopped")


async def _relay_until(
    stop: asyncio.Task[bool], app: App, config: Settings, client: Client, ready: asyncio.Event
) -> None:
    database = Database(config.database_url, most=config.connections, closed_path=True)
    pool = await database.open()
    try:
        async with pool.acquire() as connection, permitted(connection, Kind.RELAY):
            await prepare(connection, Kind.RELAY)
        async with _delivering(pool, app, config, client):
            ready.set()
            await asyncio.wait({stop})
            says(log, "stopping")
    finally:
        await database.close()


@asynccontextmanager
async def _delivering(pool: Pool, app: App, config: Settings, client: Client) -> AsyncIterator[None]:
    services = Services()
    exchange = Exchange(client, config)
    async with exchange.answering():
        ownership = Ownership(pool, exchange, services.nudge)
        await ownership.claim()
        try:
            await services.start(ownership, *delivering(pool, client, app, config, meter_of(client), relay=True))
            yield
        finally:
            await services.stop()
