"""A client whose database is away raises a clear error, and a wait goes on."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from pathlib import Path

import asyncpg
import pytest

from perdure import Client, Settings
from perdure._store import schema
from perdure.errors import DatabaseUnavailable
from perdure.servers.postgres import PostgresServer
from tests.apps.contracts import Booking
from tests.deadline import DEADLINE
from tests.world import World


async def test_a_wait_outlives_a_restart_of_the_database_and_a_look_says_that_it_is_away(tmp_path: Path) -> None:
    with PostgresServer(durable=False) as server:
        config = Settings(database_url=server.dsn())
        admin = await asyncpg.connect(server.dsn())
        await schema.migrate(admin)
        async with Client.connect(config) as client:
            await client.start("lookup", "a", Booking())
            waiting = asyncio.create_task(client.wait("lookup", "a", timeout=timedelta(seconds=DEADLINE)))
            await admin.close()
            server.stop("immediate")
            with pytest.raises(DatabaseUnavailable, match="PostgreSQL did not answer"):
                await client.status("lookup", "a")

            server.start()
            admin = await asyncpg.connect(server.dsn())
            await admin.execute("update perdure.ident set final = 'done'")
            assert (await waiting).state == "starting"
            assert (await waiting).final
            await admin.close()


async def test_a_wait_outlives_a_read_that_takes_too_long_and_a_look_reports_it(world: World) -> None:
    """As on a machine that is overloaded: PostgreSQL ends the statement at the pool's `statement_timeout`."""
    await world.client.start("lookup", "a", Booking())
    quick = await world.db.fetchval("select pg_get_functiondef('perdure.status'::regproc)")
    body = quick.index("AS $function$")
    await world.db.execute(quick[:body] + "as $$ begin perform pg_sleep(1000); return null; end $$")
    waiting = asyncio.create_task(world.client.wait("lookup", "a", timeout=timedelta(seconds=DEADLINE)))
    with pytest.raises(DatabaseUnavailable, match="statement timeout"):
        await world.client.status("lookup", "a")
    assert not waiting.done()

    await world.db.execute(quick)
    await world.db.execute("update perdure.ident set final = 'done'")
    assert (await waiting).final


async def test_a_call_that_another_transaction_holds_up_is_no_refusal(world: World) -> None:
    """A caller gives up after `NotNow`: the entity does not want the message. Here it only waits for a lock."""
    for call in (
        lambda: world.client.start("lookup", "a", Booking()),
        lambda: world.client.restart("lookup", "b", by="ann", note="again"),
    ):
        async with world.db.transaction():
            await world.db.execute("select perdure.start('lookup', id, '{}') from unnest(array['a', 'b']) id")
            await world.db.execute("select from perdure.ident for update")
            with pytest.raises(DatabaseUnavailable, match=r"lookup/.: another transaction holds it: try again later"):
                await call()
