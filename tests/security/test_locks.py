"""A role to which nothing was granted can take advisory locks, and so hold up nobody."""

from __future__ import annotations

from pathlib import Path

import asyncpg
import pytest

from activities.web_jobs import catalogue
from perdure._services.follower import Follower
from perdure._store import schema
from perdure._store.connecting import open_pool
from perdure._store.postgres import PostgresStore
from perdure._wire.writes import Move, Write
from perdure.errors import NotNow
from tests.apps.bodies import app
from tests.apps.contracts import Booking
from tests.deadline import DEADLINE, in_time
from tests.security.conftest import Roles
from tests.world import World

# Keys of advisory locks that something takes or once took, and the migrator's own.
HELD = (
    "select pg_advisory_lock(hashtext('perdure.make_months'))",
    f"select pg_advisory_lock({schema._LOCK})",
    "select pg_advisory_lock(hashtextextended('lookup/a', x'666f6c6c'::bigint))",
    "select pg_advisory_lock(hashtextextended('web_job.family m', 0))",
    f"select pg_advisory_lock({catalogue._LOCK})",
)


@pytest.fixture
async def stranger(world: World, roles: Roles) -> asyncpg.Connection[asyncpg.Record]:
    """A session of a role with no rights, which holds these locks."""
    session = await roles.connect(await roles.make("stranger"))
    for statement in HELD:
        await session.execute(statement)
    return session


async def test_the_months_are_made_and_a_worker_starts(
    world: World, stranger: asyncpg.Connection[asyncpg.Record]
) -> None:
    await in_time(schema.make_months(world.db))
    worker = await world.spawn()
    assert await worker.stop() == 0


async def test_a_new_migration_is_applied(world: World, stranger: asyncpg.Connection[asyncpg.Record]) -> None:
    known = schema.migrations()
    next_one = schema.Migration(known[-1].number + 1, "again", "create table perdure.again ()")
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(schema, "migrations", lambda: [*known, next_one])
        assert (await in_time(schema.migrate(world.db))).migrations == [next_one]


async def test_the_first_migration_waits_with_a_bound_and_says_for_what(
    world: World, roles: Roles, stranger: asyncpg.Connection[asyncpg.Record], monkeypatch: pytest.MonkeyPatch
) -> None:
    await world.db.execute("drop schema perdure cascade")
    monkeypatch.setattr(schema, "_PATIENCE", 0.1)
    with pytest.raises(NotNow, match=r"held the lock of `perdure migrate` for 0\.1 s"):
        await in_time(schema.migrate(world.db))


async def test_the_column_follows(world: World, stranger: asyncpg.Connection[asyncpg.Record]) -> None:
    await world.db.execute("insert into booking (id) values ('a')")
    await world.db.execute("insert into perdure.app_column values ('lookup', 'public.booking', 'id', 'state')")
    pool = await open_pool(world.dsn, 2)
    write = Write(lifecycle="lookup", id="a", generation=0, version=1, workflow_id="w", move=Move(state="doing"))
    store = PostgresStore(pool)
    await store.write(write, patience=DEADLINE)
    assert await Follower(pool).once() in (True, False)
    await store.close()
    await pool.close()
    assert await world.db.fetchval("select state from booking where id = 'a'") == "doing"


async def test_a_family_of_web_jobs_goes_on(world: World, stranger: asyncpg.Connection[asyncpg.Record]) -> None:
    await world.db.execute(catalogue.tables())
    await world.db.execute("insert into web_job.type (name, url) values ('page', 'https://page.example/')")
    await world.db.execute("insert into web_job.job (id, type) values ('m', 'page')")
    await in_time(world.db.execute("select web_job.list_children('m', 0, '[]', null)"))
    assert await in_time(world.db.fetchval("select web_job.advance('m') is not null"))


async def test_one_transaction_at_a_time_works_on_a_family(world: World) -> None:
    await world.db.execute(catalogue.tables())
    await world.db.execute("insert into web_job.type (name, url) values ('page', 'https://page.example/')")
    await world.db.execute("insert into web_job.job (id, type) values ('m', 'page'), ('n', 'page')")
    other = await asyncpg.connect(world.dsn)
    try:
        async with world.db.transaction():
            await world.db.execute("select web_job.list_children('m', 0, '[]', null)")
            await in_time(other.execute("select web_job.list_children('n', 0, '[]', null)"))
            await other.execute("set lock_timeout = '100ms'")
            with pytest.raises(asyncpg.LockNotAvailableError):
                await other.execute("select web_job.list_children('m', 0, '[]', null)")
    finally:
        await other.close()


async def test_the_tables_of_web_jobs_are_brought_up_to_date(
    world: World, stranger: asyncpg.Connection[asyncpg.Record]
) -> None:
    await world.db.execute(catalogue.tables())
    async with world.db.transaction():
        await in_time(catalogue.set_up(world.db))


async def test_their_first_set_up_waits_with_a_bound_and_reports_for_what(
    world: World, stranger: asyncpg.Connection[asyncpg.Record]
) -> None:
    await world.db.execute("set lock_timeout = '100ms'")
    with pytest.raises(NotNow, match="another session holds the lock of `perdure job-type set-up`"):
        await in_time(catalogue.set_up(world.db))


async def test_whoever_holds_the_lock_of_one_entity_delays_its_delivery_alone(world: World, roles: Roles) -> None:
    """The one that docs/security.md names as a limit: it ends with the session that holds it."""
    session = await roles.connect(await roles.make("stranger"))
    await session.execute("select pg_advisory_lock(hashtextextended('lookup/a', x'70657264'::bigint))")
    for entity_id in ("a", "b"):
        await world.client.start("lookup", entity_id, Booking())
    async with world.worker(app):
        assert await world.ended("lookup", "b") == "done"
        assert (await world.client.status("lookup", "a")).waits_for_delivery
        await session.close()
        assert await world.ended("lookup", "a") == "done"


def test_no_statement_waits_without_a_bound_for_an_advisory_lock() -> None:
    """Those that are left are tried, or taken in sessions that have a `lock_timeout`."""
    root = Path(__file__).parents[2]
    found = {
        path.relative_to(root).as_posix()
        for room in ("perdure", "activities", "workflows", "workers")
        for path in (root / room).rglob("*.py")
        if "pg_advisory" in path.read_text() and "pg_try_advisory" not in path.read_text()
    }
    assert found == {
        "perdure/_store/schema/__init__.py",
        "perdure/_retention/working.py",
        "activities/web_jobs/catalogue.py",
    }
    assert "pg_advisory" not in catalogue.tables()
