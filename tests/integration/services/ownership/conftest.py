"""A cluster that is copied, and worlds on it and on its copies."""

from __future__ import annotations

import asyncio
import os
import secrets
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import TypeVar

import asyncpg
import pytest
from temporalio.client import Client
from temporalio.worker import Worker

from infra.clusters import clusters_folder
from perdure import PerdurePlugin
from perdure._store import schema
from perdure._worker.worker import new_worker
from perdure.errors import NotThisDatabase
from perdure.servers.postgres import PostgresServer
from perdure.servers.temporal import TemporalServer
from tests.app_tables import APP_TABLES
from tests.apps.bodies import app
from tests.conftest import FEWER_MONTHS
from tests.deadline import in_time
from tests.world import World

S = TypeVar("S", bound=PostgresServer)
TICK, SILENCE = 0.3, 2.5
"""Seconds here, where production has tens. A busy machine may delay several ticks."""


@pytest.fixture(autouse=True)
def short_ticks(monkeypatch: pytest.MonkeyPatch) -> None:
    """In this process, where all workers of these tests are."""
    monkeypatch.setattr("perdure._services.ownership.ownership.TICK", TICK)
    monkeypatch.setattr("perdure._wire.keeper.SILENCE", SILENCE)


@pytest.fixture(scope="session")
def source() -> Iterator[PostgresServer]:
    """A small cluster that may be copied, but not stopped."""
    with PostgresServer(durable=False) as server:
        yield server


@pytest.fixture
async def worlds(temporal: TemporalServer) -> AsyncIterator[Worlds]:
    """Makes worlds that are gone with the test."""
    with clusters_folder() as folder:
        async with AsyncExitStack() as stack:
            yield Worlds(temporal, Path(folder), stack)


class Worlds:
    """Makes worlds on clusters of the test's own."""

    def __init__(self, temporal: TemporalServer, folder: Path, stack: AsyncExitStack) -> None:
        self._temporal = temporal
        self._stack = stack
        self.folder = folder

    async def on(self, server: PostgresServer) -> World:
        """A world in a new database of this server."""
        name = "test_" + secrets.token_hex(6)
        admin = await asyncpg.connect(server.dsn())
        await admin.execute(f"create database {name}")
        await admin.close()
        connection = await asyncpg.connect(server.dsn(name))
        await schema.migrate(connection)
        await connection.execute(APP_TABLES)
        await connection.execute(FEWER_MONTHS)
        await connection.close()
        return await self._stack.enter_async_context(World(server, self._temporal, name, self.folder).made(app))

    async def beside(
        self, world: World, server: PostgresServer, *, database: str | None = None, scope: str | None = None
    ) -> World:
        """The same world on another server or database, with the same scope unless another is given. The other side
        is the same."""
        name = database or world.dsn.rpartition("/")[2]
        other = World(server, self._temporal, name, self.folder)
        other.scope = scope or world.scope
        other.config = other.config.model_copy(update={"scope": other.scope})
        made = await self._stack.enter_async_context(other.made(app))
        made.counterparty = world.counterparty
        os.environ["COUNTERPARTY_PORT"] = str(world.counterparty.port)
        return made

    async def refused(self, world: World) -> str:
        """Why a worker of this world does not start. If Temporal gives no answer in time, the worker starts, and the
        answer stops its database: the next worker does not start."""
        for _ in range(2):
            plugin = PerdurePlugin(app, world.config)
            client = await Client.connect(
                world.temporal.address, namespace=world.temporal_client.namespace, plugins=[plugin]
            )
            worker = new_worker(client, world.config)
            running = asyncio.create_task(worker.run())

            async def ends(running: asyncio.Task[None] = running, worker: Worker = worker) -> bool:
                stopped = await world.db.fetchval("select stopped is not null from perdure.database")
                return running.done() or (worker.is_running and bool(stopped))

            await world.until(ends, "its worker is refused")
            if running.done():
                with pytest.raises(NotThisDatabase) as refused:
                    await running
                return str(refused.value)
            await worker.shutdown()
            await in_time(running)
        raise AssertionError("its worker starts, although its database is stopped")

    async def marked_anew(self, world: World) -> None:
        """Wait until marks that a copy of before has are old ones."""
        for _ in range(2):
            before = await world.db.fetchval("select mark from perdure.database")

            async def other(before: str | None = before) -> bool:
                return bool(await world.db.fetchval("select mark is distinct from $1 from perdure.database", before))

            await world.until(other, "another mark")

    def running(self, server: S) -> S:
        """Start it; it ends with the test."""
        self._stack.callback(server.close)
        server.start()
        return server
