"""Group commit beside locks, lost servers and dead connections: no write waits for another's (invariant 8)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import asyncpg
import pytest

from perdure._activity import execution
from perdure._store.group_commit import SLOW
from perdure._store.postgres import LONGEST, PostgresStore
from perdure._wire.writes import Gate
from perdure.errors import DatabaseUnavailable
from perdure.servers.postgres import PostgresServer
from perdure.testing.proxy import Proxy, proxied
from tests.deadline import DEADLINE
from tests.integration.store.stores import (
    PATIENCE,
    Calls,
    Connection,
    a_move,
    states,
    store_at,
    written,
)


@pytest.fixture
async def proxy(postgres: PostgresServer) -> AsyncIterator[Proxy]:
    """In front of PostgreSQL."""
    async with proxied(postgres.port) as made:
        yield made


@pytest.fixture
async def far_store(dsn: str, db: Connection, postgres: PostgresServer, proxy: Proxy) -> AsyncIterator[PostgresStore]:
    """A store behind the proxy."""
    async with store_at(dsn.replace(f":{postgres.port}/", f":{proxy.port}/")) as made:
        yield made


async def test_500_writers_lose_and_repeat_nothing_when_postgresql_crashes(
    postgres: PostgresServer, dsn: str, store: PostgresStore
) -> None:
    calls, answered, under_way, over = Calls(store), 0, asyncio.Event(), asyncio.Event()

    async def writer(entity_id: int) -> int:
        nonlocal answered
        version, last = 0, False
        while not last:
            version += 1
            last = version >= 20 and over.is_set()
            answer = await store.write(a_move(entity_id, version, f"s{version}", final=last), patience=PATIENCE)
            assert (answer.gate, answer.version) == (Gate.OPEN, version)
            answered += 1
            if answered == 4_000:
                under_way.set()
        return version

    writers = [asyncio.create_task(writer(number)) for number in range(500)]
    await under_way.wait()
    await asyncio.to_thread(postgres.restart, "immediate")
    over.set()
    versions = await asyncio.gather(*writers)
    assert len(calls.sizes) < sum(versions) / 10
    db = await asyncpg.connect(dsn)
    shown = await db.fetch(
        "select id, array_agg(version order by version) as versions from perdure.transition group by id"
    )
    ends = await db.fetch("select id, version from perdure.ident where final = 's' || version")
    moved = await db.fetchval("select count(*) from perdure.finished")
    still_open = await db.fetchval("select count(*) from perdure.entity")
    await db.close()
    assert {int(row["id"]): row["versions"] for row in shown} == {
        number: list(range(1, last + 1)) for number, last in enumerate(versions)
    }
    assert {int(row["id"]): row["version"] for row in ends} == dict(enumerate(versions))
    assert (moved, still_open) == (500, 0)


async def test_a_row_that_the_app_holds_holds_up_nobody(store: PostgresStore, db: Connection) -> None:
    await db.execute("insert into booking select g::text, 'pending' from generate_series(1, 200) g")
    async with db.transaction():
        await db.execute("select from booking where id = '77' for update")
        calls = Calls(store)
        # All of them end before the app lets go.
        answers = await written(store, *(a_move(n, 1) for n in range(1, 201)))
    assert len(answers) == 200
    assert len(calls.sizes) == 1


@pytest.mark.parametrize(
    "how", ["select from perdure.ident {} for update", "update perdure.ident set generation = 0 {}"]
)
async def test_an_entity_that_is_held_holds_up_no_other(store: PostgresStore, db: Connection, how: str) -> None:
    await written(store, *(a_move(n, 1) for n in range(200)))
    calls = Calls(store)
    async with db.transaction():
        await db.execute(how.format("where id = '77'"))
        held = asyncio.create_task(store.write(a_move(77, 2, "error"), patience=PATIENCE))
        await written(store, *(a_move(n, 2, "error") for n in range(200) if n != 77))
        assert not held.done()
    assert (await held).gate is Gate.OPEN
    assert calls.sizes[0] == 200
    assert set(calls.sizes[1:]) == {1}, "nobody but itself was sent again"
    assert await states(db, 77) == ["doing", "error"]


async def test_an_entity_that_is_held_for_too_long_ends_the_patience_of_its_own_write(
    store: PostgresStore, db: Connection
) -> None:
    await written(store, a_move("a", 1))
    async with db.transaction():
        await db.execute("select from perdure.ident where id = 'a' for update")
        with pytest.raises(DatabaseUnavailable, match="another session holds the lock of the entity"):
            await store.write(a_move("a", 2), patience=2)
    assert await states(db, "a") == ["doing"]


async def test_an_entity_that_is_just_being_started_holds_up_no_other(store: PostgresStore, db: Connection) -> None:
    async with db.transaction():
        await db.execute("select perdure.start('booking', '7', '{}')")
        held = asyncio.create_task(store.write(a_move(7, 1), patience=PATIENCE))
        await written(store, *(a_move(n, 1) for n in range(20) if n != 7))
        assert not held.done()
    assert (await held).gate is Gate.OPEN
    assert await states(db, 7) == ["starting", "doing"]


async def test_a_connection_that_died_without_a_word_is_given_up(
    far_store: PostgresStore, proxy: Proxy, db: Connection
) -> None:
    await written(far_store, a_move("a", 1))
    proxy.freeze()
    (answer,) = await written(far_store, a_move("a", 2, "error"))
    assert answer.gate is Gate.OPEN
    assert LONGEST + SLOW < execution.PATIENCE, "there is time left for another one within one commit of an attempt"
    assert await states(db, "a") == ["doing", "error"]


async def test_a_dead_connection_holds_up_no_write_that_comes_after(far_store: PostgresStore, proxy: Proxy) -> None:
    await written(far_store, a_move("a", 1))
    proxy.freeze()
    first = asyncio.create_task(far_store.write(a_move("a", 2, "error"), patience=PATIENCE))
    await asyncio.sleep(0)
    await asyncio.gather(*(far_store.write(a_move(n, 1), patience=PATIENCE) for n in range(20)))
    assert not first.done()
    assert (await first).gate is Gate.OPEN


async def test_a_reply_that_was_lost_is_asked_for_again_and_nothing_is_written_twice(
    far_store: PostgresStore, proxy: Proxy, db: Connection
) -> None:
    proxy.delay(0.03)
    lost, said = 0, list[str]()
    while lost < 3:
        version = len(said) + 1
        said.append(f"s{version}")
        writing = asyncio.create_task(far_store.write(a_move("a", version, said[-1]), patience=PATIENCE))
        while await db.fetchval("select max(version) from perdure.transition where id = 'a'") != version:
            pass
        lost += not writing.done()  # committed, and the reply is still held by the proxy
        proxy.cut()
        assert ((await writing).gate, (await writing).version) == (Gate.OPEN, version)
    assert await states(db, "a") == said


async def test_no_answer_in_time_is_said_while_the_network_is_gone_and_the_next_write_goes_through(
    far_store: PostgresStore, proxy: Proxy
) -> None:
    await written(far_store, a_move("a", 1))
    proxy.freeze(new_ones=True)
    with pytest.raises(DatabaseUnavailable, match=r"booking/a: not committed by PostgreSQL within 0\.4 s"):
        await far_store.write(a_move("a", 2, "error"), patience=0.4)
    proxy.thaw()
    proxy.cut()
    (answer,) = await written(far_store, a_move("a", 3, "done"))
    assert answer.gate is Gate.OPEN


MEGABYTE = "x" * 1_000_000


async def test_large_writes_get_through_a_narrow_link(far_store: PostgresStore, proxy: Proxy) -> None:
    proxy.narrow(12_500_000)  # 100 Mbit/s
    async with asyncio.timeout(DEADLINE):
        answers = await written(far_store, *(a_move(n, 1, snapshot=MEGABYTE) for n in range(60)))
    assert {each.gate for each in answers} == {Gate.OPEN}
    assert proxy.forwarded < 80_000_000, "nothing was sent again"


async def test_a_large_write_that_meets_a_time_out_is_given_longer(
    far_store: PostgresStore, proxy: Proxy, caplog: pytest.LogCaptureFixture
) -> None:
    proxy.narrow(200_000)
    (answer,) = await written(far_store, a_move("a", 1, snapshot=MEGABYTE))
    assert answer.gate is Gate.OPEN
    dropped = caplog.messages.count("PostgreSQL does not answer: the connection is dropped")
    assert 0 < dropped <= 3, "the fourth time has more than a minute for five seconds"


async def test_a_batch_holds_no_more_bytes_than_are_sent_again_easily(store: PostgresStore) -> None:
    calls = Calls(store)
    await written(store, *(a_move(n, 1, snapshot="x" * 20_000) for n in range(100)))
    assert max(calls.sizes) == 12
    assert sum(calls.sizes) == 100
