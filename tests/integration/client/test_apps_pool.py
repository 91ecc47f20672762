"""`Client(pool)` works on the app's own pool, whatever its sessions convert or have as their defaults."""

from __future__ import annotations

import asyncio
import json
from datetime import timedelta
from typing import Any

import asyncpg
import pytest

from perdure import Client
from perdure.servers.postgres import PostgresServer
from tests.deadline import DEADLINE, until
from tests.integration.store.stores import a_move, store_at, written


@pytest.fixture
def dsn(postgres: PostgresServer, database: str) -> str:
    return postgres.dsn(database)


async def _decode_json(connection: Any) -> None:
    for kind in ("json", "jsonb"):
        await connection.set_type_codec(kind, encoder=json.dumps, decoder=json.loads, schema="pg_catalog")


async def test_the_status_is_read_by_a_pool_that_decodes_json(dsn: str) -> None:
    async with asyncpg.create_pool(dsn, init=_decode_json, min_size=1, max_size=2) as pool, store_at(dsn) as store:
        client = Client(pool)
        await client.start("order", "a", {"item": "book"})
        assert (await client.status("order", "a")).state == "starting"
        await written(store, a_move("a", 1, "sent", final=True, lifecycle="order"))
        assert (await client.wait("order", "a", timeout=timedelta(seconds=DEADLINE))).state == "sent"


@pytest.mark.parametrize("level", ["repeatable read", "serializable"])
async def test_a_call_works_by_a_pool_with_another_isolation(level: str, dsn: str) -> None:
    own = asyncpg.create_pool(dsn, server_settings={"default_transaction_isolation": level}, min_size=1, max_size=3)
    async with own as pool, store_at(dsn) as store:
        client = Client(pool)
        async with pool.acquire() as other:
            begun = other.transaction()
            await begun.start()
            await client.start("order", "a", {}, connection=other)
            second = asyncio.create_task(client.start("order", "a", {}))
            waits = "select exists (select from pg_locks where not granted)"
            await until(lambda: pool.fetchval(waits), "the second start waits for the first")
            await begun.commit()
        assert (await second).answer == "open"
        await written(store, a_move("a", 1, "sent", final=True, lifecycle="order"))
        assert await client.restart("order", "a", by="ann", note="again") == 1
