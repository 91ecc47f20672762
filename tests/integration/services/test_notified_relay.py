"""While few rows come, each commit notifies the relay, which then polls rarely; while many come, no commit does."""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import AsyncIterator

import asyncpg
import pytest

from infra.pgbouncer import PgBouncer
from perdure._services.listener import CHANNEL
from perdure._store import schema
from perdure.servers.postgres import PostgresServer
from tests.apps.straight import app
from tests.world import World

NEVER = 60.0
"""Seconds between two polls: longer than any test waits."""
_SEEN = "select max(seen_at) from perdure.relay"
_ASKED = "select exists (select from perdure.relay where notified)"
_START = "select perdure.start('straight', $1, '{\"what\": \"this\"}')"
_FINISHED = "select count(*) = $1 from perdure.finished"
_LISTENERS = (
    "select pid from pg_stat_activity where datname = current_database() and application_name = 'perdure listener'"
)


@pytest.fixture
async def heard(world: World) -> AsyncIterator[list[str]]:
    """The payloads of all notifications, as another session receives them."""
    payloads: list[str] = []
    listening = await asyncpg.connect(world.dsn)
    await listening.add_listener(CHANNEL, lambda *given: payloads.append(given[-1]))
    yield payloads
    await listening.close()


async def until_asked(world: World) -> None:
    """Wait until a relay asks for notifications."""
    await world.until(lambda: world.db.fetchval(_ASKED), "a relay that is notified")


async def test_a_commit_is_delivered_long_before_the_next_poll(world: World) -> None:
    async with world.worker(app, relay_poll_interval=NEVER):
        await until_asked(world)
        began = time.monotonic()
        for number in range(5):
            await world.db.execute(_START, str(number))
            assert await world.ended("straight", number) == "done"
        assert time.monotonic() - began < NEVER / 4


async def test_a_relay_whose_connection_is_lost_polls_and_is_notified_again(world: World) -> None:
    async with world.worker(app, relay_poll_interval=2.0):
        await until_asked(world)
        lost = await world.db.fetchval(_LISTENERS)
        await world.db.execute("select pg_terminate_backend($1)", lost)
        await world.db.execute(_START, "a")
        await world.ended("straight", "a")

        async def listens_again() -> bool:
            return await world.db.fetchval(_LISTENERS) not in (None, lost)

        await world.until(listens_again, "another connection")
        await until_asked(world)


async def test_many_commits_notify_nobody(world: World, heard: list[str]) -> None:
    async with world.worker(app):
        await until_asked(world)
        number = 0
        while await world.db.fetchval(_ASKED):
            await world.db.execute(_START, str(number := number + 1))
        await world.db.execute("select pg_notify($1, 'middle')", CHANNEL)
        for more in range(number, number + 20):
            await world.db.execute(_START, str(more + 1))
        await world.db.execute("select pg_notify($1, 'end')", CHANNEL)
        await world.until(lambda: heard[-2:] == ["middle", "end"], "none but these")
        await world.until(lambda: world.db.fetchval(_FINISHED, number + 20), "all finished")


async def test_after_many_rows_at_once_a_relay_is_soon_notified_again(world: World) -> None:
    """Before the relay is seen again. No rows come after the burst, which would show it that few come now."""
    async with world.worker(app):
        await until_asked(world)
        numbers = itertools.count(1)

        async def asks_before_it_is_seen() -> bool:
            while await world.db.fetchval(_ASKED):
                await world.db.execute(_START, str(next(numbers)))
            seen = await world.db.fetchval(_SEEN)
            await until_asked(world)
            return bool(await world.db.fetchval(_SEEN) == seen)

        # On a busy machine it may be seen first, by chance.
        await world.until(asks_before_it_is_seen, "it asks before it is seen again")


async def test_a_relay_that_was_killed_is_notified_for_seconds_only(world: World, heard: list[str]) -> None:
    row = "insert into perdure.relay values ($1, '{}', '{}', now(), now() - $2::interval, true)"
    await world.db.execute(row.replace("$2::interval", "interval '20 seconds'"), "killed")
    await world.db.execute(_START, "a")
    await world.db.execute("select pg_notify($1, 'end')", CHANNEL)
    await world.until(lambda: heard == ["end"], "the end alone")
    await world.db.execute(row.replace("$2::interval", "interval '5 seconds'"), "running")
    await world.db.execute(_START, "b")
    await world.until(lambda: heard == ["end", ""], "one notification")


async def test_behind_a_pooler_of_transactions_a_relay_polls(
    world: World, postgres: PostgresServer, database: str
) -> None:
    with PgBouncer(postgres, default_pool_size="4") as bouncer:
        async with world.worker(app, database_url=bouncer.dsn(database), relay_poll_interval=0.2):
            await world.db.execute(_START, "a")
            assert await world.ended("straight", "a") == "done"
            assert not await world.db.fetchval(_ASKED)
            assert await world.db.fetchval(_LISTENERS) is None


async def test_a_relay_that_stops_is_notified_no_more(world: World) -> None:
    async with world.worker(app, relay_poll_interval=NEVER):
        await until_asked(world)
    assert not await world.db.fetchval(_ASKED)
    assert await world.db.fetchval(_LISTENERS) is None


async def test_a_transaction_can_be_prepared_where_the_server_allows_it() -> None:
    """PostgreSQL refuses to prepare a transaction with a NOTIFY, so there no commit notifies a relay."""
    with PostgresServer(durable=False) as own:
        db = await asyncpg.connect(own.dsn())
        await schema.migrate(db)
        await db.execute("alter system set max_prepared_transactions = 2")
        await db.close()
        await asyncio.to_thread(own.restart)
        db = await asyncpg.connect(own.dsn())
        await db.execute("insert into perdure.relay values ('r', '{}', '{}', now(), now(), true)")
        await db.execute("begin")
        await db.execute(_START, "a")
        await db.execute("prepare transaction 'of the app'")
        await db.execute("commit prepared 'of the app'")
        assert await db.fetchval("select count(*) from perdure.outbox") == 1
        await db.close()
