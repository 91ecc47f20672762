"""A client whose database is away says so, and whoever waits goes on waiting."""

from __future__ import annotations

import asyncio
from pathlib import Path

import asyncpg
import pytest

from infra.postgres import PostgresServer
from perdure import Client, Settings, schema, seconds
from perdure.errors import DatabaseUnavailable
from tests.apps.contracts import Errand


async def test_a_wait_outlives_a_restart_of_the_database_and_a_look_says_that_it_is_away(tmp_path: Path) -> None:
    with PostgresServer(durable=False) as server:
        config = Settings(database_url=server.dsn())
        admin = await asyncpg.connect(server.dsn())
        await schema.migrate(admin)
        async with Client.connect(config) as client:
            await client.start("lookup", "a", Errand())
            waiting = asyncio.create_task(client.wait("lookup", "a", timeout=seconds(60)))
            await admin.close()
            server.stop("immediate")
            with pytest.raises(DatabaseUnavailable, match="PostgreSQL gave no answer"):
                await client.status("lookup", "a")

            server.start()
            admin = await asyncpg.connect(server.dsn())
            await admin.execute("update perdure.ident set final = 'done'")
            assert (await waiting).state == "pending"
            assert (await waiting).final
            await admin.close()
