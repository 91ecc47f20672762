"""PostgreSQL, Temporal and a worker in this process, for whoever measures deliveries."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import asyncpg
import temporalio.client

from bench.outbox.life import app
from bench.polling import eventually
from perdure import PerdurePlugin, Settings
from perdure._store import schema
from perdure._worker.worker import new_identity, new_worker
from perdure.servers.postgres import PostgresServer
from perdure.servers.temporal import TemporalServer


class Rig:
    """The servers; made by `rig`.

    Attributes:
        app: a connection as the app has it.
    """

    def __init__(self, postgres: PostgresServer, temporal: TemporalServer, app_: Any) -> None:
        self.postgres = postgres
        self.temporal = temporal
        self.app: asyncpg.Connection[asyncpg.Record] = app_
        self.config = Settings(database_url=postgres.dsn(), task_queue="bench")

    @asynccontextmanager
    async def worker(self, **settings: Any) -> AsyncIterator[temporalio.client.Client]:
        """A worker in this process; gives the client that it uses."""
        config = self.config.model_copy(update=settings)
        plugin = PerdurePlugin(app, config)
        address = self.temporal.address
        client = await temporalio.client.Client.connect(address, plugins=[plugin], identity=new_identity())
        async with new_worker(client, config):
            await asyncio.wait_for(plugin.ready.wait(), 60)
            yield client

    async def over(self, count: int, *, every: float = 0.02) -> None:
        """Wait until so many lifecycles have ended since `forget`."""
        query = "select count(*) >= $1 from perdure.finished"
        await eventually(lambda: self.app.fetchval(query, count), "all have ended", patience=300, every=every)

    async def forget(self) -> None:
        """Take what has ended off the record."""
        await self.app.execute("truncate perdure.finished, perdure.ident, perdure.entity, perdure.outbox")


@asynccontextmanager
async def rig() -> AsyncIterator[Rig]:
    """Servers as in production: PostgreSQL syncs to disk, Temporal has its defaults."""
    with PostgresServer(durable=True) as postgres, TemporalServer(prompt_queue=True) as temporal:
        connection = await asyncpg.connect(postgres.dsn())
        await schema.migrate(connection)
        yield Rig(postgres, temporal, connection)
        await connection.close()
