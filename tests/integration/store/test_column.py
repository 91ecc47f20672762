"""The column of the app's own table: in the same commit where its row is free, right after where it is not."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from perdure.fleet.follower import Follower
from perdure.store.postgres import PostgresStore
from perdure.store.writes import Column, Gate
from tests.integration.store.store_ground import ERRAND_STATE, Connection, a_begin, a_move, states, until, written

TABLES = {
    "bigint": ("create table {0} (id bigint primary key, state text)", "42"),
    "uuid": ("create table {0} (id uuid primary key, state varchar(40))", "6f1c1c0e-9c7e-4a3b-8c0e-0f2d6a7b8c9d"),
    "text": ("create table {0} (id text primary key, state text)", 'it\'s "42"\\'),
    "enum": ("create table {0} (id int primary key, state progress)", "7"),
}


@asynccontextmanager
async def following(store: PostgresStore) -> AsyncIterator[None]:
    follower = Follower(store.pool, every=0.02)
    await follower.start()
    try:
        yield
    finally:
        await follower.stop()


async def shown(db: Connection, entity_id: str = "a") -> str | None:
    value = await db.fetchval("select state from errand where id = $1", entity_id)
    return None if value is None else str(value)


async def nothing_behind(db: Connection) -> bool:
    return not await db.fetchval("select exists (select from perdure.behind)")


async def test_a_free_row_shows_the_state_in_the_same_commit(store: PostgresStore, db: Connection) -> None:
    await db.execute("insert into errand values ('a', 'pending')")
    (answer,) = await written(store, a_move("a", 1, column=ERRAND_STATE))
    assert answer.column == "written"
    both = await db.fetchrow("select e.xmin = i.xmin as same, e.state from errand e, perdure.ident i")
    assert both is not None
    assert (both["same"], both["state"]) == (True, "doing")


async def test_an_attempt_and_its_state_never_wait_for_the_apps_row(store: PostgresStore, db: Connection) -> None:
    await db.execute("insert into errand values ('a', 'pending')")
    async with db.transaction():
        await db.execute("select from errand where id = 'a' for update")
        (answer,) = await written(store, a_begin("a", 1, entering="doing", column=ERRAND_STATE))
        assert (answer.state, answer.column) == ("doing", "behind")
        assert await states(store.pool, "a") == ["doing"]
    assert await shown(db) == "pending"
    async with following(store):
        await until(lambda: nothing_behind(db), "the column follows")
    assert await shown(db) == "doing"


async def test_a_row_that_was_held_over_several_moves_shows_the_last(store: PostgresStore, db: Connection) -> None:
    await db.execute("insert into errand values ('a', 'pending')")
    async with following(store):
        async with db.transaction():
            await db.execute("update errand set state = 'pending' where id = 'a'")
            for version, state in enumerate(("doing", "error", "doing", "done"), 1):
                await written(store, a_move("a", version, state, final=state == "done", column=ERRAND_STATE))
        await until(lambda: nothing_behind(db), "the column follows")
    assert await shown(db) == "done"


async def test_the_column_never_goes_back_while_follower_and_writes_race(store: PostgresStore, db: Connection) -> None:
    ids = [f"e{number}" for number in range(40)]
    await db.execute("create table seen (at bigint generated always as identity, id text, n int)")
    await db.executemany("insert into errand values ($1, '0')", [(each,) for each in ids])
    await db.execute(
        "create function note() returns trigger language plpgsql as "
        "$$ begin insert into seen (id, n) values (new.id, new.state::int); return new; end $$;"
        "create trigger note after update on errand for each row execute function note()"
    )
    try:
        # Written down as behind, so that the follower writes them too, again and again, beside the writers.
        behind = (
            "insert into perdure.behind select 'errand', id, 'errand', 'state', 'id' from errand on conflict do nothing"
        )
        async with following(store):
            for version in range(1, 31):
                await db.execute(behind)
                await written(store, *(a_move(each, version, str(version), column=ERRAND_STATE) for each in ids))
            await until(lambda: nothing_behind(db), "the follower has settled all")
        steps = "select n - lag(n) over (partition by id order by at) as step from seen"
        assert await db.fetchval(f"select count(*) from ({steps}) s where step < 0") == 0
        assert await db.fetchval("select count(*) from errand where state = '30'") == len(ids)
    finally:
        await db.execute("drop trigger note on errand; drop function note; drop table seen")


async def test_the_follower_waits_for_nobody(store: PostgresStore, db: Connection) -> None:
    await db.execute("insert into errand values ('a', 'pending'), ('b', 'pending')")
    async with db.transaction():
        await db.execute("select from errand for update")
        await written(store, *(a_move(each, 1, column=ERRAND_STATE) for each in ("a", "b")))
    async with db.transaction():
        await db.execute("select from perdure.ident where id = 'a' for update")
        async with following(store):
            await until(lambda: _is(store, "b", "doing"), "the other one follows")
    assert await shown(db, "a") == "pending"


async def _is(store: PostgresStore, entity_id: str, state: str) -> bool:
    return bool(await store.pool.fetchval("select state = $2 from errand where id = $1", entity_id, state))


async def test_a_missing_row_is_said_and_holds_up_nothing(store: PostgresStore, db: Connection) -> None:
    (answer,) = await written(store, a_move("a", 1, column=ERRAND_STATE))
    assert (answer.gate, answer.column) == (Gate.OPEN, "missing")
    assert await nothing_behind(db)


async def test_a_row_that_vanishes_while_it_is_behind_is_forgotten(store: PostgresStore, db: Connection) -> None:
    await db.execute("insert into errand values ('a', 'pending')")
    async with db.transaction():
        await db.execute("delete from errand where id = 'a'")
        (answer,) = await written(store, a_move("a", 1, column=ERRAND_STATE))
        assert answer.column == "behind"
    async with following(store):
        await until(lambda: nothing_behind(db), "it is settled")


@pytest.mark.parametrize("name", ["order", '"Bad ""Names"" Ltd"."Order"'])
@pytest.mark.parametrize("kind", TABLES)
async def test_any_key_and_column_type_in_any_schema(
    store: PostgresStore, db: Connection, kind: str, name: str
) -> None:
    table = name if "." in name else f'public."{name}"'
    create, key = TABLES[kind]
    await db.execute('create schema "Bad ""Names"" Ltd"; create type progress as enum (\'pending\', \'doing\')')
    try:
        await db.execute(create.format(table))
        await db.execute(f"insert into {table} (id, state) select $1::text::{_type_of(kind)}, 'pending'", key)
        (answer,) = await written(store, a_move(key, 1, column=Column(table=table, column="state")))
        assert answer.column == "written"
        assert await db.fetchval(f"select state::text from {table}") == "doing"
    finally:
        await db.execute(f'drop table {table}; drop schema "Bad ""Names"" Ltd"; drop type progress')


def _type_of(kind: str) -> str:
    return "int" if kind == "enum" else kind


@pytest.mark.parametrize(
    ("entity_id", "column", "said"),
    [
        ("a", Column(table="errand", column="nope"), "nope"),
        ("a", Column(table="nowhere", column="state"), "nowhere"),
        ("no-number", Column(table="comment", column="notification_state"), "22P02"),
    ],
    ids=["no such column", "no such table", "an id that is no key"],
)
async def test_a_column_that_can_not_be_written_stops_nobody_and_says_why(
    store: PostgresStore, db: Connection, entity_id: str, column: Column, said: str
) -> None:
    await db.execute("insert into errand values ('a', 'pending')")
    (answer,) = await written(store, a_move(entity_id, 1, column=column))
    assert (answer.gate, answer.state, answer.column) == (Gate.OPEN, "doing", "behind")
    assert said in await db.fetchval("select error from perdure.behind")


async def test_a_state_that_the_app_refuses_is_shown_once_it_is_allowed(store: PostgresStore, db: Connection) -> None:
    await db.execute("insert into errand values ('a', 'pending'), ('b', 'pending')")
    await db.execute("alter table errand add constraint known check (state in ('pending', 'done'))")
    try:
        answers = await written(
            store,
            a_move("a", 1, "doing", column=ERRAND_STATE),
            a_move("b", 1, "done", final=True, column=ERRAND_STATE),
        )
        assert [answer.gate for answer in answers] == [Gate.OPEN, Gate.OPEN]
        assert await states(db, "a") == ["doing"]
        assert (await shown(db, "a"), await shown(db, "b")) == ("pending", "done")
        assert "known" in await db.fetchval("select error from perdure.behind where id = 'a'")
        async with following(store):
            await until(lambda: _tried_again(db), "the follower tried it as well")
        assert "known" in await db.fetchval("select error from perdure.behind where id = 'a'")
    finally:
        await db.execute("alter table errand drop constraint known")
    await db.execute("update perdure.behind set next_try = now()")
    async with following(store):
        await until(lambda: nothing_behind(db), "it is shown at last")
    assert await shown(db, "a") == "doing"


async def _tried_again(db: Connection) -> bool:
    return bool(await db.fetchval("select next_try > now() + interval '10 s' from perdure.behind where id = 'a'"))
