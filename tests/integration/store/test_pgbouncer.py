"""Behind PgBouncer in transaction mode everything holds that holds without it: starts, a whole worker, the bounds that
keep one locked row from holding up others."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator

import asyncpg
import psycopg
import pytest

from infra.pgbouncer import PgBouncer
from perdure import Client
from perdure._store.connecting import BOUNDS, Pool
from perdure._store.postgres import Database
from perdure.servers.postgres import PostgresServer
from tests.apps.straight import app
from tests.deadline import in_time
from tests.world import World

IGNORING = ", ".join(["extra_float_digits", *BOUNDS])
HOURS = 10_000.0
"""Seconds that no test takes."""


@pytest.fixture(scope="module")
def bouncer(postgres: PostgresServer) -> Iterator[PgBouncer]:
    """One that has few connections for many clients, and refuses settings of a session, as it does by default."""
    with PgBouncer(postgres, default_pool_size="4") as running:
        yield running


@pytest.fixture(scope="module")
def ignoring(postgres: PostgresServer) -> Iterator[PgBouncer]:
    """One that was told to ignore them, as many are for the sake of other clients."""
    with PgBouncer(postgres, default_pool_size="4", ignore_startup_parameters=IGNORING) as running:
        yield running


@pytest.fixture(params=["bouncer", "ignoring"])
async def pool(request: pytest.FixtureRequest, database: str) -> AsyncIterator[Pool]:
    """Perdure's own connections, through either."""
    opened = Database(request.getfixturevalue(request.param).dsn(database), most=6)
    yield await opened.open()
    await opened.close()


async def test_an_app_starts_and_signals_through_it(world: World, bouncer: PgBouncer, database: str) -> None:
    app_of = [await asyncpg.connect(bouncer.dsn(database), statement_cache_size=0) for _ in range(3)]
    for number in range(12):
        connection = app_of[number % 3]
        async with connection.transaction():
            await connection.execute("insert into booking (id) values ($1)", str(number))
            await Client().start("straight", number, {"what": "this"}, connection=connection)
        assert await connection.fetchval("select perdure.signal('straight', $1, 'hear')", str(number)) == "sent"
    for connection in app_of:
        await connection.close()
    assert await world.db.fetchval("select count(*) from perdure.outbox") == 24


async def test_an_app_starts_by_psycopg_through_it(world: World, bouncer: PgBouncer, database: str) -> None:
    for _ in range(3):
        opened = await psycopg.AsyncConnection.connect(bouncer.dsn(database), prepare_threshold=None)
        async with opened as connection:
            for number in range(8):
                async with connection.transaction():
                    await Client().start("straight", number, {"what": "this"}, connection=connection)
    assert await world.db.fetchval("select count(*) from perdure.outbox") == 8


async def test_a_whole_worker_runs_through_it(world: World, bouncer: PgBouncer, database: str) -> None:
    both = ["straight", "straight-inline"]
    each = "from generate_series(1, 20) n, unnest($1::text[]) l"
    await world.db.execute(f"insert into booking select l || n {each}", both)
    holder = await asyncpg.connect(world.dsn)
    async with world.worker(app, database_url=bouncer.dsn(database)):
        async with holder.transaction():
            await holder.execute("select from booking where id = 'straight7' for update")
            await world.db.execute(f"select perdure.start(l, l || n, '{{}}') {each}", both)
            await world.until(lambda: world.db.fetchval("select count(*) = 40 from perdure.finished"), "all done")
            shown = "select count(*) = 39 from booking where state = 'done'"
            await world.until(lambda: world.db.fetchval(shown), "all but the held one are shown")
        await world.until(lambda: world.db.fetchval("select count(*) = 40 from booking where state = 'done'"), "shown")
    await holder.close()
    assert (len(world.counterparty.accepted), set(world.counterparty.accepted.values())) == (40, {1})


async def test_a_statement_that_stands_still_is_ended_by_the_server(pool: Pool) -> None:
    async def in_a_transaction() -> None:
        async with pool.acquire() as connection, connection.transaction():
            await connection.fetchval("select pg_sleep($1::float)", HOURS)

    alone = pool.execute(f"select pg_sleep({HOURS})")
    ended = await in_time(asyncio.gather(alone, in_a_transaction(), return_exceptions=True))
    assert [type(each) for each in ended] == [asyncpg.QueryCanceledError] * 2


async def test_a_lock_that_the_app_keeps_is_not_waited_for(pool: Pool, world: World) -> None:
    await world.db.execute("insert into booking (id) values ('a')")
    async with world.db.transaction():
        await world.db.execute("select from booking for update")
        for statement in ("update booking set state = 'x'", "delete from booking"):
            with pytest.raises(asyncpg.LockNotAvailableError):
                await in_time(pool.fetch(statement))  # it ends before `statement_timeout`, which raises another one
    assert await pool.fetchval("update booking set state = 'y' returning state") == "y"


async def test_each_transaction_brings_its_bounds_and_leaves_none_behind(
    pool: Pool, bouncer: PgBouncer, database: str
) -> None:
    shown = "select array[current_setting('lock_timeout'), current_setting('statement_timeout'), " + (
        "current_setting('transaction_isolation')]"
    )
    ours = ["250ms", "1500ms", "read committed"]
    await pool.execute(f"alter database {database} set default_transaction_isolation = 'repeatable read'")
    assert await pool.fetchval(shown) == ours
    async with pool.acquire() as connection, connection.transaction(readonly=True):
        assert tuple(await connection.fetchrow(shown) or ()) == (ours,)
    await asyncio.gather(*(pool.fetchval(shown) for _ in range(20)))
    theirs = await asyncpg.connect(bouncer.dsn(database), statement_cache_size=0)
    assert (await theirs.fetchval(shown))[:2] == ["0", "0"]
    await theirs.close()


async def test_a_failed_statement_is_rolled_back_and_harms_no_other(pool: Pool) -> None:
    async with pool.acquire() as connection:
        await connection.execute("insert into booking (id) values ('a')")
        with pytest.raises(asyncpg.UniqueViolationError):
            await connection.execute("insert into booking (id) values ('b'), ('a')")
        with pytest.raises(asyncpg.DataError):
            await connection.fetch("insert into booking (id) values ($1)", object())
        assert [row[0] for row in await connection.fetch("select id from booking")] == ["a"]
