"""While few rows come, each commit notifies the relay, which then polls rarely; while many come, no commit does."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import asyncpg
import pytest

from infra.pgbouncer import PgBouncer
from perdure._services import pace, relay
from perdure._services.listener import CHANNEL, Listener
from perdure._services.pace import FEW
from perdure._services.presence import NOTED_EVERY, Presence
from perdure._store import schema
from perdure._store.connecting import open_pool
from perdure.servers.postgres import PostgresServer
from tests.apps.straight import app
from tests.deadline import DEADLINE
from tests.world import World

NEVER = 5 * DEADLINE
"""Seconds between two polls: longer than any test waits."""
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
        for number in range(5):
            await world.db.execute(_START, str(number))
            assert await world.ended("straight", number) == "done"


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


async def test_many_commits_notify_nobody(world: World, heard: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(relay, "FEW", 1)  # a slow machine makes no twenty in a second
    monkeypatch.setattr(pace, "CALM", DEADLINE)
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


async def test_after_many_commits_a_relay_is_notified_again_although_none_follow(
    world: World, heard: list[str]
) -> None:
    """Before its next note, which would count the notifications anew: that may be seconds away."""
    pool = await open_pool(world.dsn, 1)
    listener = Listener(pool, world.dsn, lambda: None)
    presence = Presence("r", ["straight"], [], listener, many=FEW)
    try:
        await listener.once()
        await presence.note(world.db)
        assert await presence.choose_notice(world.db, busy=False)
        for number in range(most := FEW * int(NOTED_EVERY) + 1):
            await world.db.execute("select perdure.start('straight', $1, '{}')", str(number))
        await world.until(lambda: listener.received == len(heard) == most, "all notifications")
        assert not await presence.choose_notice(world.db, busy=False)
        assert await presence.choose_notice(world.db, busy=True)
        assert not await world.db.fetchval(_ASKED)
        assert await presence.choose_notice(world.db, busy=False)
        assert await world.db.fetchval(_ASKED)
    finally:
        await listener.stop()
        await pool.close()


async def test_a_relay_that_was_killed_is_notified_for_seconds_only(world: World, heard: list[str]) -> None:
    row = "insert into perdure.relay values ($1, '{}', '{}', now(), now() - $2::interval, true)"
    await world.db.execute(row.replace("$2::interval", "interval '20 seconds'"), "killed")
    await world.db.execute(_START, "a")
    await world.db.execute("select pg_notify($1, 'end')", CHANNEL)
    await world.until(lambda: heard == ["end"], "the end alone")
    await world.db.execute(row.replace("$2::interval", "interval '0 seconds'"), "running")
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
