"""A database of each test's own, and a connection to it."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from perdure.servers.postgres import PostgresServer
from tests.integration.retention.months import Connection, connected


@pytest.fixture
def dsn(postgres: PostgresServer, database: str) -> str:
    """URL of the test's own database."""
    return postgres.dsn(database)


@pytest.fixture
async def db(dsn: str) -> AsyncIterator[Connection]:
    """A connection to it."""
    async with connected(dsn) as connection:
        yield connection
