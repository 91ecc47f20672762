"""The URLs of two roles lead to the same database, by whatever way; nothing else passes as it."""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator

import pytest

from infra.pgbouncer import PgBouncer
from perdure._store.connecting import open_pool
from perdure._store.one_database import check_same_database
from perdure.errors import NotThisDatabase
from perdure.servers.postgres import PostgresServer
from tests.conftest import as_admin


@pytest.fixture
async def role(postgres: PostgresServer, database: str) -> AsyncIterator[str]:
    """A role without any rights."""
    name = f"nobody_{secrets.token_hex(4)}"
    await as_admin(postgres, f"create role {name} login")
    yield name
    await as_admin(postgres, f"drop role {name}")


async def compare(url: str, other: str) -> None:
    """Each by a pool of its own, as a worker does."""
    async with (
        await open_pool(url, 1) as own,
        await open_pool(other, 1) as others,
        own.acquire() as connection,
        others.acquire() as writer,
    ):
        await check_same_database(connection, writer, "PERDURE_COLUMN_DATABASE_URL")


async def test_another_host_name_role_or_pooler_is_the_same_database(
    postgres: PostgresServer, database: str, role: str
) -> None:
    url = postgres.dsn(database)
    with PgBouncer(postgres, default_pool_size="4") as bouncer:
        for other in (
            url.replace("127.0.0.1", "localhost"),
            url.replace("postgres@", f"{role}@"),
            bouncer.dsn(database),
        ):
            await compare(url, other)
            await compare(other, url)
        await compare(bouncer.dsn(database), bouncer.dsn(database))


async def test_another_database_of_the_same_server_is_refused(postgres: PostgresServer, database: str) -> None:
    with pytest.raises(NotThisDatabase, match="PERDURE_COLUMN_DATABASE_URL leads to another database"):
        await compare(postgres.dsn(database), postgres.dsn("postgres"))
