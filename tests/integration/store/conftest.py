"""A database, a connection as an app has it, and a store for each test of the store."""

from __future__ import annotations

from collections.abc import AsyncIterator

import asyncpg
import pytest

from infra.postgres import PostgresServer
from perdure.store.postgres import PostgresStore
from tests.integration.store.store_ground import Connection, store_at


@pytest.fixture
def dsn(postgres: PostgresServer, database: str) -> str:
    """URL of the test's own database."""
    return postgres.dsn(database)


@pytest.fixture
async def db(dsn: str) -> AsyncIterator[Connection]:
    """A connection of the test's own, as an app would have it."""
    connection = await asyncpg.connect(dsn)
    yield connection
    await connection.close()


@pytest.fixture
async def store(dsn: str) -> AsyncIterator[PostgresStore]:
    """A store on the test's own database."""
    async with store_at(dsn) as made:
        yield made
