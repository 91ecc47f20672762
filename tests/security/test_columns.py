"""The owner of the app's table, and whoever writes orders, get nothing of the worker's."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from perdure._services.follower import Follower
from perdure._store.connecting import open_pool
from perdure._store.postgres import Pool, PostgresStore
from perdure._store.sql import queries
from perdure._wire.writes import Move, Write
from tests.deadline import DEADLINE
from tests.security.conftest import Roles, perdure
from tests.world import World

APP = "tests.apps.bodies:app"

# Everything by which a trigger could run something as the session that fired it.
TRAP = """
create table {schema}.seen (who text, what text);
grant usage on schema {schema} to public;
grant insert on {schema}.seen to public;
create function {schema}.see(what text) returns text language plpgsql as $$
begin
    insert into {schema}.seen values (current_user, what);
    if has_table_privilege('perdure.effect', 'update') then
        execute 'update perdure.effect set status = ''done''';
    end if;
    return what;
end $$;
create function {schema}.spring() returns trigger language plpgsql as $$
begin
    perform {schema}.see('trigger');
    begin
        execute 'reset role; reset session authorization';
        perform {schema}.see('reset role');
    exception when others then
        null;
    end;
    execute 'declare later cursor with hold for select {schema}.see(''cursor at the commit'')';
    execute 'set constraints all deferred';
    perform set_config('search_path', '{schema}', false);
    return null;
end $$;
create function {schema}.at_commit() returns trigger language plpgsql as $$
begin
    perform {schema}.see('deferred trigger');
    execute 'set constraints all deferred';
    return null;
end $$;
create trigger spring after update on public.booking for each row execute function {schema}.spring();
create constraint trigger at_commit after update on public.booking deferrable initially deferred
    for each row execute function {schema}.at_commit();
"""


@pytest.fixture
async def owner(world: World, roles: Roles) -> str:
    """The role that owns the app's table, and nothing else."""
    name = await roles.make("shop_owner")
    await world.db.execute(
        f"create schema {name} authorization {name}; grant create on schema public to {name}; "
        f"alter table booking owner to {name}"
    )
    return name


@pytest.fixture
async def columns(world: World, roles: Roles) -> AsyncIterator[Pool]:
    """Sessions of the role that writes the columns."""
    name = await roles.make("shop_columns")
    await perdure(world, "grant", name, "--as", "column", "--app", APP)
    pool = await open_pool(roles.url(name), 2)
    yield pool
    await pool.close()


def a_move(state: str, **more: object) -> Write:
    """A move of lookup/a, as an order in Temporal may hold it."""
    order = {"lifecycle": "lookup", "id": "a", "generation": 0, "version": 1, "workflow_id": "w", **more}
    return Write.model_validate(order | {"move": Move(state=state).model_dump()})


async def moved(world: World, role_url: str, write: Write) -> None:
    """Commit a move as a worker of that role does."""
    pool = await open_pool(role_url, 2, closed_path=True)
    store = PostgresStore(pool)
    await store.write(write, patience=DEADLINE)
    await store.close()
    await pool.close()


async def test_a_trigger_of_the_apps_table_runs_with_no_right_of_the_workers(
    world: World, roles: Roles, owner: str, columns: Pool
) -> None:
    worker = await roles.make("shop_worker")
    await perdure(world, "grant", worker, "--as", "worker")
    attacker = await roles.connect(owner)
    await attacker.execute(TRAP.format(schema=owner))
    await attacker.execute("insert into booking (id) values ('a')")
    await moved(world, roles.url(worker), a_move("doing"))
    assert await Follower(columns).once() in (True, False)
    assert await world.db.fetchval("select state from booking where id = 'a'") == "doing"
    seen = {row["what"]: row["who"] for row in await world.db.fetch(f"select * from {owner}.seen")}
    assert {"trigger", "cursor at the commit", "deferred trigger"} <= set(seen)  # the trap was sprung
    assert {who.rpartition("_")[0] for who in seen.values()} == {"shop_columns"}
    name = next(iter(set(seen.values())))
    tables = """
        select c.relname from pg_class c where c.relnamespace = 'perdure'::regnamespace and c.relkind in ('r', 'p')
            and (has_table_privilege($1, c.oid, 'select, insert, update, delete')
                or has_any_column_privilege($1, c.oid, 'select, update'))"""
    assert await world.db.fetch(tables, name) == []


async def test_an_order_in_temporal_names_no_table(world: World, columns: Pool) -> None:
    await world.db.execute(
        "create table users (name text primary key, role text); insert into users values ('a', 'guest')"
    )
    await world.db.execute("insert into booking (id) values ('a')")
    role = {"table": "public.users", "key": "name", "column": "role"}
    await moved(world, world.dsn, a_move("admin", column=role))
    await Follower(columns).once()
    assert await world.db.fetchval("select role from users") == "guest"
    assert await world.db.fetchval("select state from booking") == "admin"  # the column that is declared
    pool = await open_pool(world.dsn, 2)
    await moved(
        world,
        world.dsn,
        a_move("doing", version=2, lifecycle="undeclared", column={"table": "users", "key": "name", "column": "role"}),
    )
    await Follower(pool).once()
    await pool.close()
    assert await world.db.fetchval("select role from users") == "guest"


PLANTED = """
    create function public.{0} language plpgsql as
    $$ begin insert into public.seen values ('{1}', current_user); return null; end $$"""
FITS_BETTER = {
    "in a function": "jsonb_build_object(text, text, text, int, text, bigint, text, text, text, text, text, text, "
    "text, jsonb) returns jsonb",
    "in a query": "hashtextextended(text, int) returns bigint",
}
"""PostgreSQL takes these instead of its own, which take `"any"` and `bigint`, where it finds them by the path."""


async def test_a_function_in_a_schema_of_the_path_is_never_run_as_the_worker(world: World, roles: Roles) -> None:
    attacker, worker = await roles.make("intern"), await roles.make("shop_worker")
    await perdure(world, "grant", worker, "--as", "worker")
    await world.db.execute(f"grant create on schema public to {attacker}")
    planted = await roles.connect(attacker)
    await planted.execute("create table public.seen (what text, who text); grant insert on public.seen to public")
    for what, head in FITS_BETTER.items():
        await planted.execute(PLANTED.format(head, what))
    await moved(world, roles.url(worker), a_move("doing"))
    pool = await open_pool(roles.url(worker), 2, closed_path=True)
    await world.db.execute("select perdure.start('booking', 'b', '{}')")
    async with pool.acquire() as connection, connection.transaction():
        claimed = await connection.fetch(queries("perdure._services")("claim"), 10, ["booking"], "relay")
    await pool.close()
    assert [row["id"] for row in claimed] == ["b"]
    assert await planted.fetch("select * from public.seen") == []
