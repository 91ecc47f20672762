"""Positions of the feed hold through crashes of PostgreSQL; where a restore makes them wrong they are refused."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import asyncpg
import pytest

from perdure import Client
from perdure._store import schema
from perdure.errors import DatabaseUnavailable
from perdure.settings import Settings
from tests.deadline import in_time
from tests.following.servers import Servers

FEED = "select id, version, position from perdure.feed($1, 100)"


@pytest.fixture
async def servers() -> AsyncIterator[Servers]:
    """A server of the test's own, which keeps nothing in a crash but what was flushed."""
    async with Servers() as made:
        yield made


async def start(servers: Servers, *ids: str) -> None:
    """Start entities, each in a transaction of its own."""
    db = await asyncpg.connect(servers.dsn)
    for each in ids:
        await db.execute("select perdure.start('booking', $1, '{}')", each)
    await db.close()


async def roll_back(servers: Servers, times: int) -> None:
    """Take numbers of transactions, of which nothing stays."""
    db = await asyncpg.connect(servers.dsn)
    for _ in range(times):
        await db.execute("begin; select pg_current_xact_id(); rollback")
    await db.close()


async def read(servers: Servers, after: str | None) -> tuple[list[str], str | None]:
    """Ids of the events after a position, and the position after them."""
    db = await asyncpg.connect(servers.dsn)
    try:
        page = await db.fetch(FEED, after)
    finally:
        await db.close()
    return [row["id"] for row in page], page[-1]["position"] if page else after


async def end_of(servers: Servers) -> str:
    """The position of the end."""
    db = await asyncpg.connect(servers.dsn)
    position = str(await db.fetchval("select perdure.feed_position()"))
    await db.close()
    return position


async def refused(servers: Servers, after: str | None, why: str) -> None:
    """It is, by an error that names the position, what happened and the way out."""
    with pytest.raises(asyncpg.ObjectNotInPrerequisiteStateError, match=why) as error:
        await read(servers, after)
    assert str(after) in str(error.value)
    assert "feed_position(since => '20" in str(error.value.hint)


async def test_transactions_that_reuse_numbers_lost_in_a_crash_are_not_missed(servers: Servers) -> None:
    await start(servers, "a", "b")
    await roll_back(servers, 20)
    seen, after = await read(servers, None)
    end = await end_of(servers)
    assert seen == ["a", "b"]
    servers.crash()
    late = [f"after{number}" for number in range(6)]
    await start(servers, *late)
    assert (await read(servers, after))[0] == late
    assert (await read(servers, end))[0] == late


async def test_a_delivered_event_survives_a_crash_whatever_its_writer_had_set(servers: Servers) -> None:
    db = await asyncpg.connect(servers.dsn)
    await db.execute("set synchronous_commit = off")
    await db.execute("select perdure.start('booking', 'a', '{}')")
    assert (await read(servers, None))[0] == ["a"]
    db.terminate()
    servers.crash()
    assert (await read(servers, None))[0] == ["a"]


async def test_the_first_event_after_a_restore_of_a_dump_is_not_hidden(servers: Servers) -> None:
    await start(servers, "a", "b")
    before = await end_of(servers)
    await servers.move(transactions=3)
    after = await end_of(servers)
    await start(servers, "first")
    assert (await read(servers, after))[0] == ["first"]
    assert (await read(servers, None))[0] == ["a", "b", "first"]
    await refused(servers, before, "before a dump was restored")


async def test_a_database_that_went_elsewhere_by_a_dump_and_came_back_is_another_one(servers: Servers) -> None:
    await start(servers, "a")
    _, of_the_first = await read(servers, None)
    await servers.move(transactions=2000)
    await start(servers, "b", "c")
    _, of_the_second = await read(servers, None)
    await servers.move(transactions=0)
    await start(servers, "d")
    assert (await read(servers, None))[0] == ["a", "b", "c", "d"]
    for position in (of_the_first, of_the_second):
        await refused(servers, position, "before a dump was restored")


async def test_a_dump_restored_over_its_own_database_makes_it_another_one(servers: Servers) -> None:
    await start(servers, "a")
    dump = servers.dump()
    await start(servers, "lost")
    _, after = await read(servers, None)
    await servers.restore(dump, servers.database)
    await start(servers, "b")
    await refused(servers, after, "before a dump was restored")
    assert (await read(servers, None))[0] == ["a", "b"]


@pytest.mark.parametrize("cold", [True, False])
async def test_a_data_directory_that_was_put_back_refuses_who_has_read_what_it_lost(
    servers: Servers, cold: bool
) -> None:
    await start(servers, "a")
    _, before = await read(servers, None)
    copy = servers.copy(cold=cold)
    await start(servers, "lost")
    _, after = await read(servers, before)
    end = await end_of(servers)
    servers.put_back(copy)
    for position in (after, end):
        await refused(servers, position, "not on record here")
    await start(servers, "b", "c", "d")
    for position in (after, end):  # also once the numbers of its transactions were given again
        await refused(servers, position, "not on record here")
    assert (await read(servers, before))[0] == ["b", "c", "d"]


async def test_a_standby_that_takes_over_goes_on_with_who_has_read_nothing_that_it_lacks(servers: Servers) -> None:
    standby = servers.standby()
    await start(servers, "a")
    _, before = await read(servers, None)
    await servers.caught_up(standby)
    standby.stop()
    await start(servers, "lost")
    _, after = await read(servers, before)
    await servers.fail_over(standby)
    await start(servers, "b")
    assert (await read(servers, before))[0] == ["b"]
    await refused(servers, after, "another server took over")


async def test_a_read_only_follower_of_a_restored_database_needs_a_worker_to_have_started(servers: Servers) -> None:
    await start(servers, "a")
    await servers.move(transactions=3)
    db = await asyncpg.connect(servers.dsn, server_settings={"default_transaction_read_only": "on"})
    with pytest.raises(
        asyncpg.ReadOnlySQLTransactionError, match="was restored, and this transaction is read-only"
    ) as error:
        await db.fetch(FEED, None)
    assert "a worker does so when it starts" in str(error.value.hint)
    worker = await asyncpg.connect(servers.dsn)
    await schema.note_database(worker)
    await worker.close()
    assert [row["id"] for row in await db.fetch(FEED, None)] == ["a"]
    await db.close()


async def test_a_follower_waits_for_a_standby_to_take_over(servers: Servers) -> None:
    await start(servers, "a")
    _, after = await read(servers, None)
    standby = servers.standby()
    await servers.caught_up(standby)
    config = Settings(database_url=standby.dsn(servers.database))
    async with Client.connect(config) as client:
        with pytest.raises(DatabaseUnavailable, match="standby"):
            await anext(client.feed(after, wait=False))
        waiting = asyncio.create_task(anext(client.feed(after)))
        await servers.fail_over(standby)
        await start(servers, "b")
        assert (await in_time(waiting)).id == "b"
