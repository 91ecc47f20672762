"""PostgreSQL loses the commit of a delivery in a crash: the row is delivered again, and nothing is begun twice."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import asyncpg
import pytest
from temporalio.client import Client

from perdure import PerdurePlugin, Settings
from perdure._services.relay import Relay
from perdure._store import schema
from perdure._store.postgres import Database
from perdure.contracts.keys import Entity
from perdure.servers.postgres import PostgresServer
from perdure.servers.temporal import TemporalServer
from tests.apps.listening import app

_START = "select perdure.start('listener', 'a', '{}')"
_SIGNAL = "select perdure.signal('listener', 'a', 'say', '1')"
_WAITING = "select count(*) from perdure.outbox"


@pytest.fixture
async def postgres() -> AsyncIterator[PostgresServer]:
    """A server that writes to its log when a commit waits for that, and else only every ten seconds."""
    with await asyncio.to_thread(PostgresServer(durable=False).__enter__) as server:
        connection = await asyncpg.connect(server.dsn())
        await schema.migrate(connection)
        for setting in ("wal_writer_delay = '10s'", "autovacuum = off"):
            await connection.execute(f"alter system set {setting}")
        await connection.close()
        await asyncio.to_thread(server.restart)
        yield server


@asynccontextmanager
async def crashing(server: PostgresServer) -> AsyncIterator[asyncpg.Connection[asyncpg.Record]]:
    """A connection; at its end the server crashes, and comes back."""
    connection = await asyncpg.connect(server.dsn())
    yield connection
    await asyncio.to_thread(server.kill)
    connection.terminate()
    await asyncio.to_thread(server.start)


@asynccontextmanager
async def relaying(server: PostgresServer, temporal: TemporalServer, scope: str) -> AsyncIterator[Relay]:
    """A relay that delivers when it is told to."""
    config = Settings(database_url=server.dsn(), scope=scope)
    client = await Client.connect(temporal.address, plugins=[PerdurePlugin(app, config)])
    database = Database(config.database_url)
    yield Relay(await database.open(), client, app, config)
    await database.close()


async def test_a_start_whose_delivery_is_lost_is_delivered_again(
    postgres: PostgresServer, temporal: TemporalServer
) -> None:
    scope = f"lost-{secrets.token_hex(4)}"
    run = (await Client.connect(temporal.address)).get_workflow_handle(Entity("listener", "a").workflow_id(scope))
    async with crashing(postgres) as connection, relaying(postgres, temporal, scope) as relay:
        await connection.execute(_START)
        await relay.once()
        assert (relay.delivered, await connection.fetchval(_WAITING)) == (1, 0)
        begun = await run.describe()
    connection = await asyncpg.connect(postgres.dsn())
    assert await connection.fetchval(_WAITING) == 1
    async with relaying(postgres, temporal, scope) as relay:
        await relay.once()
        assert (relay.delivered, await connection.fetchval(_WAITING)) == (1, 0)
    await connection.close()
    assert (await run.describe()).run_id == begun.run_id


async def test_a_message_keeps_its_place_when_postgresql_crashes_behind_it(
    postgres: PostgresServer, temporal: TemporalServer
) -> None:
    scope = f"kept-{secrets.token_hex(4)}"
    async with crashing(postgres) as connection, relaying(postgres, temporal, scope) as relay:
        await connection.execute(_START)
        await relay.once()
        await connection.execute(_SIGNAL)
        await relay.once()
        assert await connection.fetchval(_WAITING) == 1  # it has its place, and is not delivered yet
    connection = await asyncpg.connect(postgres.dsn())
    assert await connection.fetchval("select ordinal from perdure.message") == 1
    await connection.close()
