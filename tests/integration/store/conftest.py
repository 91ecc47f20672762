"""A database for each module of tests, emptied for each test; a connection as an app has it, and a store."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator, Iterator

import asyncpg
import pytest

from perdure._store.postgres import PostgresStore
from perdure.servers.postgres import PostgresServer
from tests.integration.store.stores import LIFECYCLE, Connection, declared, run_on, store_at

_TABLES = (
    "ident",
    "entity",
    "effect",
    "outbox",
    "message",
    "rejected",
    "behind",
    "app_column",
    "finished",
    "transition",
)


@pytest.fixture(scope="module")
def dsn(postgres: PostgresServer) -> Iterator[str]:
    """URL of the module's own database."""
    name = "test_" + secrets.token_hex(6)
    asyncio.run(run_on(postgres.dsn(), f"create database {name} template perdure_template"))
    yield postgres.dsn(name)
    asyncio.run(run_on(postgres.dsn(), f"drop database {name} with (force)"))


@pytest.fixture
async def db(dsn: str) -> AsyncIterator[Connection]:
    """A connection as an app would have it, to a database in which nothing has happened yet."""
    connection = await asyncpg.connect(dsn)
    await connection.execute(";".join(f"delete from perdure.{table}" for table in _TABLES) + "; delete from booking")
    await declared(connection, LIFECYCLE, "public.booking", "id", "state")
    yield connection
    await connection.close()


@pytest.fixture
async def store(dsn: str, db: Connection) -> AsyncIterator[PostgresStore]:
    """A store on that database."""
    async with store_at(dsn) as made:
        yield made
