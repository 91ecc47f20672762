"""A worker whose role owns nothing: `perdure grant ROLE --as worker` gives all that it needs; errors name the rest."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from urllib.parse import quote

import asyncpg
import pytest
from typer.testing import CliRunner, Result

from perdure._services.follower import Follower
from perdure.cli import cli
from perdure.contracts import EffectStatus
from perdure.errors import NotPermitted
from tests.apps.bookings import Escalate, LookupBooking, LookupInline
from tests.apps.contracts import Booking
from tests.integration.store.stores import a_move, store_at, written
from tests.world import WorkerProcess, World

APP = "tests.apps.bodies:app"
LOST = {"accept": True, "close": True}


@asynccontextmanager
async def made(world: World, what: str) -> AsyncIterator[str]:
    """A role to which nothing was granted. Its name needs quotes."""
    name = f"{what} {secrets.token_hex(4)}"
    await world.db.execute(f'create role "{name}" login')
    yield name
    for worker in world.workers:
        await worker.end()
    await world.db.execute(f'drop owned by "{name}"; drop role "{name}"')


@pytest.fixture
async def role(world: World) -> AsyncIterator[str]:
    """The role of a worker."""
    async with made(world, "shop worker") as name:
        yield name


@pytest.fixture
async def columns(world: World) -> AsyncIterator[str]:
    """The role that writes the columns of the app's tables."""
    async with made(world, "shop columns") as name:
        yield name


def its(world: World, role: str) -> str:
    """The URL by which this role connects."""
    return world.dsn.replace("postgres@", f"{quote(role)}@")


async def perdure(world: World, *arguments: str, url: str | None = None) -> Result:
    """Run the command in this process."""
    environment = {**world.environment(), "PERDURE_DATABASE_URL": url or world.dsn}
    return await asyncio.to_thread(CliRunner().invoke, cli, arguments, env=environment)


async def granted(world: World, role: str, kind: str = "worker", *more: str) -> None:
    """`perdure grant ROLE --as KIND`."""
    end = await perdure(world, "grant", role, "--as", kind, *more)
    assert end.exit_code == 0, (end.output, end.exception)


async def spawned(world: World, role: str, columns: str) -> WorkerProcess:
    """A worker whose role owns nothing, and that has another one for the columns."""
    urls = {"PERDURE_DATABASE_URL": its(world, role), "PERDURE_COLUMN_DATABASE_URL": its(world, columns)}
    return await world.spawn(APP, **urls)


async def refused(world: World, role: str) -> str:
    """Why a worker of this role does not start: one line, behind what it logs about the server."""
    process = WorkerProcess(world, APP, {"PERDURE_DATABASE_URL": its(world, role)})
    world.workers.append(process)
    await process.launch()
    assert await process.gone() == 1
    (said,) = [line for line in process.text().splitlines() if "perdure.store: " not in line]
    return said


async def test_lifecycles_run_from_their_start_to_their_end(world: World, role: str, columns: str) -> None:
    await granted(world, role)
    await granted(world, columns, "column", "--app", APP)
    assert (await perdure(world, "migrate", url=its(world, role))).stdout == "up to date\n"
    worker = await spawned(world, role, columns)
    await world.db.execute("insert into booking (id) values ('found'), ('inline'), ('held')")
    world.counterparty.replies_to = {each: [LOST] for each in ("found", "parked", "ended")}

    await world.client.start(LookupInline, "inline", Booking())
    await world.client.start(LookupBooking, "found", Booking())
    await world.client.start(Escalate, "parked", Booking())
    await world.client.start(Escalate, "ended", Booking())
    await world.db.execute("select perdure.start('lookup', 'wrong', '{\"seconds\": \"many\"}')")
    holder = await asyncpg.connect(world.dsn)
    async with holder.transaction():
        await holder.execute("select from booking where id = 'held' for update")
        await world.client.start(LookupBooking, "held", Booking())
        assert await world.ended("lookup", "held") == "done"
    await holder.close()

    for lifecycle, entity_id in (("lookup-inline", "inline"), ("lookup", "found")):
        assert await world.ended(lifecycle, entity_id) == "done"
    for entity_id in ("parked", "ended"):
        await world.until(partial(_attention, world, entity_id), f"{entity_id} parked")
    await world.client.resolve(Escalate, "parked", EffectStatus.DONE, by="ann", note="it was", receipt={"number": 7})
    assert await world.ended("escalate", "parked") == "done"
    assert await world.client.restart(LookupBooking, "found", by="ann", note="once more") == 1
    assert await world.ended("lookup", "found") == "done"
    await world.until(lambda: _attention(world, "wrong"), "the start that can't be delivered is rejected")
    shown = "select count(*) from booking where id in ('found', 'inline', 'held') and state = 'done'"
    await world.until(lambda: _is(world, shown, 3), "the app's rows show the end")
    assert (await perdure(world, "reconcile", "--now", "--by", "ann")).exit_code == 1  # the rejected one is left
    assert await world.db.fetchval("select count(*) from perdure.reconciliation where ended_at is not null") == 1
    assert await worker.stop() == 0
    assert "permission" not in worker.text(), worker.text()
    owned = "select count(*) from pg_class where relnamespace = 'perdure'::regnamespace and relowner = $1::regrole"
    assert await world.db.fetchval(owned, f'"{role}"') == 0


async def test_its_columns_need_no_update_where_they_show_the_state_already(world: World, columns: str) -> None:
    await granted(world, columns, "column", "--app", APP)
    await world.db.execute(
        "insert into booking values ('a', 'doing'); create trigger unchanged before update on booking "
        "for each row execute function suppress_redundant_updates_trigger()"
    )
    async with store_at(world.dsn) as store, store_at(its(world, columns)) as writing:
        await written(store, a_move("a", 1, lifecycle="lookup"))
        assert await world.db.fetchval("select count(*) from perdure.behind") == 1
        await Follower(writing.pool).once()
    assert await world.db.fetch("select error from perdure.behind") == []


async def test_the_months_to_come_are_made_for_it(world: World, role: str, columns: str) -> None:
    await granted(world, role)
    await granted(world, columns, "column", "--app", APP)
    await world.db.execute(
        "do $$ declare month regclass; begin for month in select inhrelid from pg_inherits "
        "where inhparent = 'perdure.transition'::regclass loop execute format('drop table %s', month); end loop; end $$"
    )
    worker = await spawned(world, role, columns)
    owners = await world.db.fetch(
        "select distinct pg_get_userbyid(relowner) as name from pg_class where relname ~ '^transition_'"
    )
    assert [each["name"] for each in owners] == ["postgres"]
    assert await worker.stop() == 0


async def test_a_missing_right_is_named_with_the_command_that_grants_it(world: World, role: str, columns: str) -> None:
    way = f'the owner of the schema runs `perdure grant "{role}" --as worker`'
    said = await refused(world, role)
    assert f'the role "{role}" lacks a right that a worker needs (' in said
    assert way in said
    await granted(world, role)
    await world.db.execute(f'revoke insert on perdure.outbox from "{role}"')
    assert f"(insert on perdure.outbox): {way}" in await refused(world, role)
    await granted(world, role)
    assert "public.booking.state is not on record as its column" in await refused(world, role)
    await granted(world, columns, "column", "--app", APP)
    said = await refused(world, role)
    assert f'the role "{role}" may not write the column state of public.booking: ' in said
    assert "PERDURE_COLUMN_DATABASE_URL" in said
    worker = await spawned(world, role, columns)
    assert await worker.stop() == 0


async def test_what_a_trigger_of_the_app_sets_in_its_session_stops_no_write(world: World) -> None:
    await world.db.execute(
        "create function sets() returns trigger language plpgsql as $$ begin "
        "perform set_config('default_transaction_read_only', 'on', false); return new; end $$;"
        "create trigger sets before update on booking for each row execute function sets();"
        "insert into booking (id) values ('a'), ('b'), ('c')"
    )
    await world.spawn(APP, PERDURE_CONNECTIONS="2")
    for entity_id in ("a", "b", "c"):
        await world.client.start(LookupInline, entity_id, Booking())
        assert await world.ended("lookup-inline", entity_id) == "done"
    shown = "select count(*) from booking where state = 'done'"
    await world.until(lambda: _is(world, shown, 3), "the app's rows show the end")


async def test_columns_in_another_database_are_refused(world: World) -> None:
    process = WorkerProcess(world, APP, {"PERDURE_COLUMN_DATABASE_URL": world.postgres.dsn("perdure_template")})
    world.workers.append(process)
    await process.launch()
    assert await process.gone() == 1
    assert "PERDURE_COLUMN_DATABASE_URL leads to another database than PERDURE_DATABASE_URL" in process.text()


async def test_the_role_of_a_worker_can_add_records_and_change_none(world: World, role: str) -> None:
    await granted(world, role)
    await world.client.start(LookupBooking, "a", Booking())
    await world.db.execute(f'set role "{role}"')
    for statement in (
        "update perdure.transition set made_by = 'bob'",
        "delete from perdure.transition",
        "delete from perdure.ident",
        "delete from perdure.effect",
        "insert into perdure.migration values (9999, 'x')",
        "delete from perdure.applied_function",
        "update perdure.month set dropped_at = now()",
        "create table perdure.mine ()",
        "insert into perdure.transition (lifecycle, id, generation, version, state, session_role) "
        "values ('l', 'a', 0, 9, 's', 'ann')",
        "insert into perdure.permission values ('nobody', 'app', null, null)",
        "insert into perdure.app_column values ('escalate', 'public.users', 'id', 'role')",
        "select perdure.resolve('escalate', 'a', 'do', 'done', 'ann', '')",
        "select perdure.follow()",
        "truncate perdure.outbox",
    ):
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            await world.db.execute(statement)
    await world.db.execute("reset role")


async def test_a_role_that_may_not_migrate_is_told_who_may(world: World, role: str) -> None:
    await granted(world, role)
    assert (await perdure(world, "migrate", url=its(world, role))).output == "up to date\n"
    await world.db.execute("update perdure.applied_function set sha256 = 'another' where name = 'start'")
    end = await perdure(world, "migrate", url=its(world, role))
    assert isinstance(end.exception, NotPermitted)
    assert f'the role "{role}" may not change the schema perdure' in str(end.exception)
    way = f'run `perdure migrate` as postgres, who owns it; a worker needs `perdure grant "{role}" --as worker` alone'
    assert way in str(end.exception)
    await world.db.execute("drop schema perdure cascade")
    end = await perdure(world, "migrate", url=its(world, role))
    assert isinstance(end.exception, NotPermitted)
    assert f'to "{role}"`, or run `perdure migrate` as the owner of the database' in str(end.exception)


async def test_a_role_that_does_not_own_the_schema_can_grant_nothing(world: World, role: str) -> None:
    await granted(world, role)
    end = await perdure(world, "grant", role, "--as", "worker", url=its(world, role))
    assert isinstance(end.exception, NotPermitted)
    assert "run `perdure grant` as its owner" in str(end.exception)


async def _attention(world: World, entity_id: str) -> bool:
    wanted = "select attention is not null from perdure.entity where id = $1"
    return bool(await world.db.fetchval(wanted, entity_id))


async def _is(world: World, sql: str, value: int) -> bool:
    return bool(await world.db.fetchval(sql) == value)
