"""Logical replication brings no sequence: after the claim, new rows come behind all that were moved."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import asyncpg
import pytest

from infra.clusters import run
from perdure._services.ownership.claiming import What
from perdure.servers.postgres import PostgresServer
from perdure.servers.postgres_user import let_in, server_account
from tests.apps.bodies import app
from tests.integration.services.ownership.conftest import Worlds
from tests.integration.services.ownership.test_copies import claimed, started
from tests.world import World

REJECTED = "select exists (select from perdure.rejected where id = $1)"
RECONCILIATIONS = (
    "insert into perdure.reconciliation (asked_by, ended_at) select 'ann', now() from generate_series(1, 20)"
)
UNREADABLE = "select perdure.start('repeat', $1, '[1]')"


@pytest.fixture(scope="module")
def publisher() -> Iterator[PostgresServer]:
    """A server whose databases can be published."""
    with PostgresServer(durable=False) as server:
        run("psql", "-d", server.dsn(), "-c", "alter system set wal_level = logical")
        server.restart()
        yield server


class Subscription:
    """A second database of the same server, into which the first one is replicated."""

    def __init__(self, source: World) -> None:
        self._source = source
        self.dsn = f"{source.dsn}_d"
        self.name = self.dsn.rpartition("/")[2]

    async def begin(self) -> None:
        """Copy the schema, and subscribe to all tables."""
        db = self._source.db
        await db.execute(f"create database {self.name}")
        with tempfile.TemporaryDirectory() as folder:
            let_in(server_account(), Path(folder))
            run("pg_dump", "--schema-only", "-Fc", "-f", f"{folder}/dump", self._source.dsn)
            run("pg_restore", "-d", self.dsn, f"{folder}/dump")
        await db.execute("create publication moving for all tables")
        await db.execute(f"select pg_create_logical_replication_slot('{self.name}', 'pgoutput')")
        await self._run(
            f"create subscription moving connection '{self._source.dsn}' publication moving "
            f"with (create_slot = false, slot_name = '{self.name}')"
        )
        await self._source.until(self._copied, "all tables are copied")

    async def end(self) -> None:
        """Wait until it has all rows, and drop it."""
        await self._source.until(self._has_all, "it has caught up")
        await self._run("alter subscription moving disable")
        await self._run("alter subscription moving set (slot_name = none)")
        await self._run("drop subscription moving")

    async def _copied(self) -> bool:
        return bool(await self._run("select bool_and(srsubstate = 'r') from pg_subscription_rel"))

    async def _has_all(self) -> bool:
        counts = "select (select count(*) from perdure.transition), (select count(*) from perdure.outbox)"
        there = await asyncpg.connect(self.dsn)
        try:
            return await there.fetchrow(counts) == await self._source.db.fetchrow(counts)
        finally:
            await there.close()

    async def _run(self, statement: str) -> object:
        there = await asyncpg.connect(self.dsn)
        try:
            return await there.fetchval(statement)
        finally:
            await there.close()


@pytest.fixture
async def source(publisher: PostgresServer, worlds: Worlds) -> World:
    """A database on which a worker has run. A row was rejected, and a message waits. Reconciliations are on record."""
    world = await worlds.on(publisher)
    async with world.worker(app):
        await started(world, "a", "b", "c")
        for each in "abc":
            await world.ended("repeat", each)
        await world.db.execute(UNREADABLE, "bad")
        await world.until(lambda: world.db.fetchval(REJECTED, "bad"), "it is rejected")
    await world.db.execute(RECONCILIATIONS)
    await world.db.execute("select perdure.start('order', 'x', '{}')")
    await world.db.execute("select perdure.signal('order', 'x', 'paid', '1', message_id => 'first')")
    return world


@pytest.fixture
async def replica(source: World, publisher: PostgresServer, worlds: Worlds) -> World:
    """All of it in another database, which nobody has claimed."""
    subscription = Subscription(source)
    await subscription.begin()
    await subscription.end()
    return await worlds.beside(source, publisher, database=subscription.name)


async def test_the_feed_has_what_happens_after_the_move(replica: World) -> None:
    await claimed(replica, What.MOVED)
    end = await replica.db.fetchval("select perdure.feed_position()")
    await replica.db.execute("select perdure.start('order', 'new', '{}')")
    assert [row["id"] for row in await replica.db.fetch("select id from perdure.feed($1)", end)] == ["new"]


async def test_a_message_after_the_move_comes_behind_those_from_before(replica: World) -> None:
    await claimed(replica, What.MOVED)
    await replica.db.execute("select perdure.signal('order', 'x', 'paid', '2', message_id => 'second')")
    rows = await replica.db.fetch(
        "select message_id from perdure.outbox where id = 'x' and kind = 'message' order by seq"
    )
    assert [row["message_id"] for row in rows] == ["first", "second"]


@pytest.mark.parametrize("when", ["before", "after"])
async def test_a_row_is_rejected_that_was_added_before_or_after_the_claim(replica: World, when: str) -> None:
    """Before the claim, it can get the number of a row that was rejected before the move."""
    taken = await replica.db.fetchval("select seq from perdure.rejected")
    await replica.db.execute("select setval(pg_get_serial_sequence('perdure.outbox', 'seq'), $1, false)", taken)
    if when == "before":
        await replica.db.execute(UNREADABLE, "bad too")
    await claimed(replica, What.MOVED)
    if when == "after":
        await replica.db.execute(UNREADABLE, "bad too")
    async with replica.worker(app):
        await replica.until(lambda: replica.db.fetchval(REJECTED, "bad too"), "it is rejected")


async def test_a_reconciliation_has_a_number_of_its_own_after_the_move(replica: World) -> None:
    await claimed(replica, What.MOVED)
    begun = "insert into perdure.reconciliation (asked_by) values ('ann') returning run"
    assert await replica.db.fetchval(begun) == 21


async def test_rows_that_come_after_the_first_look_at_the_feed_count_as_well(
    source: World, publisher: PostgresServer, worlds: Worlds
) -> None:
    subscription = Subscription(source)
    await subscription.begin()
    replica = await worlds.beside(source, publisher, database=subscription.name)
    early = await replica.db.fetchval("select perdure.feed_position()")
    for number in range(5):
        await source.db.execute("select perdure.start('order', $1, '{}')", f"late-{number}")
    await subscription.end()
    await claimed(replica, What.MOVED)
    await replica.db.execute("select perdure.start('order', 'new', '{}')")
    assert await replica.db.fetchval("select count(*) = count(distinct seq) from perdure.transition")
    assert [row["id"] for row in await replica.db.fetch("select id from perdure.feed(null, 1000)")][-1] == "new"
    with pytest.raises(asyncpg.ObjectNotInPrerequisiteStateError):
        await replica.db.execute("select perdure.feed($1)", early)
