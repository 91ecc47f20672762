"""`Client(pool)` works on the app's own pool, whatever its sessions convert or have as their defaults."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import asyncpg
import pytest

from perdure import Client
from perdure.servers.postgres import PostgresServer
from tests.deadline import DEADLINE
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
