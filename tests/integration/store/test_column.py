"""The app's own column shows each state right after its commit, and blocks nobody."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, nullcontext

import asyncpg
import pytest

from perdure._services.follower import Follower
from perdure._store.postgres import Database, Pool, PostgresStore
from perdure._store.schema.rights import check_mirror
from perdure._wire.writes import Gate, Verdict
from perdure._worker.columns import find
from perdure.contracts.app_column import AppColumn
from perdure.contracts.outcomes import EffectStatus
from perdure.errors import DeclarationError, NotPermitted
from tests.deadline import DEADLINE, until
from tests.integration.store.stores import (
    LIFECYCLE,
    Connection,
    a_begin,
    a_move,
    an_outcome,
    declared,
    states,
    store_at,
    written,
)

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
    value = await db.fetchval("select state from booking where id = $1", entity_id)
    return None if value is None else str(value)


async def nothing_behind(db: Connection) -> bool:
    return not await db.fetchval("select exists (select from perdure.behind)")


async def test_a_commit_has_the_follower_show_it_at_once(dsn: str, db: Connection) -> None:
    await db.execute("insert into booking values ('a', 'pending')")
    database = Database(dsn)
    pool = await database.open()
    follower = Follower(pool, every=3600)
    store = PostgresStore(pool, moved=lambda lifecycle: follower.nudge())
    await follower.start()
    try:
        for version, state in enumerate(("doing", "error", "done"), 1):
            await written(store, a_move("a", version, state, final=state == "done"))
            await until(lambda state=state: _is(store, "a", state), f"it shows {state}")  # type: ignore[misc]
    finally:
        await follower.stop()
        await database.close()


async def test_a_write_never_touches_the_apps_table(store: PostgresStore, db: Connection, dsn: str) -> None:
    await db.execute("insert into booking values ('a', 'pending')")
    async with db.transaction():
        await db.execute("lock table booking in access exclusive mode")
        async with asyncio.timeout(DEADLINE):
            (answer,) = await written(store, a_begin("a", 1, entering="doing"))
    assert (answer.verdict, answer.state) == (Verdict.FRESH, "doing")


async def test_an_attempt_and_its_state_never_wait_for_the_apps_row(store: PostgresStore, db: Connection) -> None:
    await db.execute("insert into booking values ('a', 'pending')")
    async with db.transaction():
        await db.execute("select from booking where id = 'a' for update")
        (answer,) = await written(store, a_begin("a", 1, entering="doing"))
        assert answer.state == "doing"
        assert await states(store.pool, "a") == ["doing"]
    assert await shown(db) == "pending"
    async with following(store):
        await until(lambda: nothing_behind(db), "the column follows")
    assert await shown(db) == "doing"


async def test_a_row_that_was_held_over_several_moves_shows_the_last(store: PostgresStore, db: Connection) -> None:
    await db.execute("insert into booking values ('a', 'pending')")
    async with following(store):
        async with db.transaction():
            await db.execute("update booking set state = 'pending' where id = 'a'")
            for version, state in enumerate(("doing", "error", "doing", "done"), 1):
                await written(store, a_move("a", version, state, final=state == "done"))
        await until(lambda: nothing_behind(db), "the column follows")
    assert await shown(db) == "done"


async def test_a_restart_that_is_dropped_shows_the_end_before_it(store: PostgresStore, db: Connection) -> None:
    await db.execute("insert into booking values ('a', 'pending')")
    await db.execute("select perdure.start($1, 'a', '{}')", LIFECYCLE)
    await db.execute("delete from perdure.outbox")
    await written(store, a_move("a", 1, "doing"), a_move("a", 2, "done", final=True))
    await db.execute("select perdure.restart($1, 'a', 'ann', 'again')", LIFECYCLE)
    rejected = "insert into perdure.rejected (seq, lifecycle, id, generation, kind, body, reason) "
    rejected += "select seq, lifecycle, id, generation, kind, body, 'a test' from perdure.outbox returning seq"
    await db.execute("select perdure.drop_rejected($1, 'ann', 'a test')", await db.fetchval(rejected))
    async with following(store):
        await until(lambda: nothing_behind(db), "the column follows")
    assert await shown(db) == "done"


async def test_an_entity_that_is_forgotten_before_its_end_was_shown_shows_it(
    store: PostgresStore, db: Connection
) -> None:
    await db.execute("insert into booking values ('a', 'pending')")
    await written(store, a_move("a", 1, "done", final=True))
    await db.execute("update perdure.behind set error = 'invalid input value: \"Ann\"', tries = 3")
    await db.execute("select perdure.forget($1, 'a', 'the officer')", LIFECYCLE)
    assert await db.fetchval("select error from perdure.behind") is None
    async with following(store):
        await until(lambda: nothing_behind(db), "the column follows")
    assert await shown(db) == "done"


async def test_a_state_follows_to_the_new_name_of_the_apps_table(store: PostgresStore, db: Connection) -> None:
    await db.execute("insert into booking values ('a', 'pending')")
    await written(store, a_move("a", 1, "done", final=True))
    await db.execute("alter table booking rename to reservation")
    try:
        await declared(db, LIFECYCLE, "public.reservation", "id", "state")
        async with following(store):
            await until(lambda: nothing_behind(db), "the column follows")
        assert await db.fetchval("select state from reservation") == "done"
    finally:
        await db.execute("alter table reservation rename to booking")


async def test_the_column_never_goes_back_while_follower_and_writes_race(store: PostgresStore, db: Connection) -> None:
    ids = [f"e{number}" for number in range(40)]
    await db.execute("create table seen (at bigint generated always as identity, id text, n int)")
    await db.executemany("insert into booking values ($1, '0')", [(each,) for each in ids])
    await db.execute(
        "create function note() returns trigger language plpgsql as "
        "$$ begin insert into seen (id, n) values (new.id, new.state::int); return new; end $$;"
        "create trigger note after update on booking for each row execute function note()"
    )
    try:
        async with following(store), following(store):
            for version in range(1, 31):
                await written(store, *(a_move(each, version, str(version)) for each in ids))
            await until(lambda: nothing_behind(db), "the follower has settled all")
        steps = "select n - lag(n) over (partition by id order by at) as step from seen"
        assert await db.fetchval(f"select count(*) from ({steps}) s where step < 0") == 0
        assert await db.fetchval("select count(*) from booking where state = '30'") == len(ids)
    finally:
        await db.execute("drop trigger note on booking; drop function note; drop table seen")


async def test_the_follower_waits_for_nobody(store: PostgresStore, db: Connection) -> None:
    await db.execute("insert into booking values ('a', 'pending'), ('b', 'pending')")
    await written(store, *(a_move(each, 1) for each in ("a", "b")))
    async with db.transaction():
        await db.execute("select from booking where id = 'a' for update")
        async with following(store):
            await until(lambda: _is(store, "b", "doing"), "the other one follows")
    assert await shown(db, "a") == "pending"


async def _is(store: PostgresStore, entity_id: str, state: str) -> bool:
    return bool(await store.pool.fetchval("select state = $2 from booking where id = $1", entity_id, state))


async def test_a_try_of_before_the_clock_went_back_is_made_now(store: PostgresStore, db: Connection) -> None:
    await db.execute("insert into booking values ('a', 'pending')")
    await written(store, a_move("a", 1))
    await db.execute("update perdure.behind set next_try = next_try + interval '50 s'")
    assert await db.fetchval("select count(*) from perdure.columns_due(9)") == 0, "it was put off"
    await db.execute("update perdure.behind set next_try = next_try + interval '3 hours'")
    assert await db.fetchval("select perdure.columns_waiting()") == 1
    assert await db.fetchval("select count(*) from perdure.columns_due(9, true)") == 1
    async with following(store):
        await until(lambda: nothing_behind(db), "the column follows")
    assert await shown(db) == "doing"


async def test_a_missing_row_is_said_and_holds_up_nothing(store: PostgresStore, db: Connection) -> None:
    (answer,) = await written(store, a_move("a", 1))
    assert answer.gate is Gate.OPEN
    async with following(store):
        await until(lambda: nothing_behind(db), "it is settled")


@asynccontextmanager
async def column_role(db: Connection) -> AsyncIterator[str]:
    """A role that writes the column of `booking`, which has row-level security."""
    role = f"column_{secrets.token_hex(4)}"
    await db.execute(
        f"create role {role}; grant usage on schema perdure to {role};"
        f"grant select (id, state), update (state) on booking to {role};"
        f"grant execute on all functions in schema perdure to {role}; alter table booking enable row level security"
    )
    try:
        yield role
    finally:
        await db.execute(
            "reset role; alter table booking disable row level security;"
            "do $$ declare each name; begin for each in select policyname from pg_policies where tablename = 'booking' "
            "loop execute format('drop policy %I on booking', each); end loop; end $$;"
            f"drop owned by {role}; drop role {role}"
        )


SHOW = "select perdure.show_in_app($1, $2)"
OF_A_TENANT = "using (current_setting('shop.tenant', true) = 'south')"


async def test_a_row_that_row_level_security_hides_does_not_count_as_missing(
    store: PostgresStore, db: Connection
) -> None:
    await db.execute("insert into booking values ('a', 'pending')")
    await written(store, *(a_move(each, 1) for each in ("a", "missing")))
    async with column_role(db) as role:
        await db.execute(f"create policy of_the_app on booking {OF_A_TENANT}; set role {role}")
        with pytest.raises(
            asyncpg.InsufficientPrivilegeError, match=r"may hide the row of public\.booking .* BYPASSRLS"
        ):
            await db.execute(SHOW, LIFECYCLE, "a")
        await db.execute(f"reset role; create policy of_perdure on booking to {role} using (true); set role {role}")
        assert [await db.fetchval(SHOW, LIFECYCLE, each) for each in ("a", "missing")] == ["shown", "missing"]
    assert await shown(db) == "doing"


async def test_a_row_that_a_restrictive_policy_hides_does_not_count_as_missing(
    store: PostgresStore, db: Connection
) -> None:
    await db.execute("insert into booking values ('a', 'pending')")
    await written(store, a_move("a", 1))
    async with column_role(db) as role:
        await db.execute(
            f"create policy of_perdure on booking to {role} using (true);"
            f"create policy of_tenants on booking as restrictive {OF_A_TENANT}; set role {role}"
        )
        with pytest.raises(asyncpg.InsufficientPrivilegeError, match=r"may hide the row of public\.booking"):
            await db.execute(SHOW, LIFECYCLE, "a")
        await db.execute("set shop.tenant = 'south'")
        assert await db.fetchval(SHOW, LIFECYCLE, "a") == "shown"
        await db.execute("reset shop.tenant")


async def test_a_row_that_is_hidden_below_a_view_does_not_count_as_missing(
    store: PostgresStore, db: Connection
) -> None:
    await db.execute("insert into booking values ('a', 'pending')")
    await db.execute("create view seen with (security_invoker = on) as select * from booking")
    try:
        await declared(db, LIFECYCLE, "public.seen", "id", "state")
        await written(store, *(a_move(each, 1) for each in ("a", "missing")))
        async with column_role(db) as role:
            await db.execute(
                f"create policy of_the_app on booking {OF_A_TENANT}; grant select, update on seen to {role};"
                f"set role {role}"
            )
            with pytest.raises(asyncpg.InsufficientPrivilegeError, match=r"may hide the row of public\.seen"):
                await db.execute(SHOW, LIFECYCLE, "a")
            await db.execute(f"reset role; alter role {role} bypassrls; set role {role}")
            assert [await db.fetchval(SHOW, LIFECYCLE, each) for each in ("a", "missing")] == ["shown", "missing"]
    finally:
        await db.execute("drop view seen")
    assert await shown(db) == "doing"


async def test_a_row_that_the_role_may_read_and_not_update_is_an_error_and_a_held_one_is_none(
    store: PostgresStore, db: Connection, dsn: str
) -> None:
    await db.execute("insert into booking values ('a', 'pending')")
    await written(store, a_move("a", 1))
    other = await asyncpg.connect(dsn)
    try:
        async with column_role(db) as role:
            await db.execute(f"create policy to_read on booking for select using (true); set role {role}")
            with pytest.raises(
                NotPermitted, match=r"no policy lets the role column_\w+ update rows of public\.booking"
            ):
                await check_mirror(db, LIFECYCLE, "public.booking", "id", "state")
            with pytest.raises(asyncpg.InsufficientPrivilegeError, match="or not let it update the row"):
                await db.execute(SHOW, LIFECYCLE, "a")
            await db.execute("reset role; create policy to_update on booking for update using (id <> 'b')")
            async with other.transaction():
                await other.execute("select from booking for update")
                await db.execute(f"set role {role}")
                await check_mirror(db, LIFECYCLE, "public.booking", "id", "state")
                assert await db.fetchval(SHOW, LIFECYCLE, "a") == "held"
            assert await db.fetchval(SHOW, LIFECYCLE, "a") == "shown"
    finally:
        await other.close()


async def test_a_row_that_vanishes_while_it_is_behind_is_forgotten(store: PostgresStore, db: Connection) -> None:
    await db.execute("insert into booking values ('a', 'pending')")
    async with db.transaction():
        await db.execute("delete from booking where id = 'a'")
        await written(store, a_move("a", 1))
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
        await declared(db, LIFECYCLE, table, "id", "state")
        await written(store, a_move(key, 1))
        async with following(store):
            await until(lambda: nothing_behind(db), "the column follows")
        assert await db.fetchval(f"select state::text from {table}") == "doing"
    finally:
        await db.execute(f'drop table {table}; drop schema "Bad ""Names"" Ltd"; drop type progress')


def _type_of(kind: str) -> str:
    return "int" if kind == "enum" else kind


@pytest.mark.parametrize(
    ("entity_id", "table", "column", "said"),
    [
        ("a", "public.booking", "nope", "nope"),
        ("a", "public.nowhere", "state", "nowhere"),
        ("no-number", "public.comment", "notification_state", "22P02"),
    ],
    ids=["no such column", "no such table", "an id that is no key"],
)
async def test_a_column_that_can_not_be_written_stops_nobody_and_says_why(
    store: PostgresStore, db: Connection, entity_id: str, table: str, column: str, said: str
) -> None:
    await db.execute("insert into booking values ('a', 'pending'), ('b', 'pending')")
    await declared(db, "other", table, "id", column)
    answer, _ = await written(store, a_move(entity_id, 1, lifecycle="other"), a_move("b", 1))
    assert (answer.gate, answer.state) == (Gate.OPEN, "doing")

    async def refused() -> str | None:
        error: str | None = await db.fetchval("select error from perdure.behind where id = $1", entity_id)
        return error

    async with following(store):
        assert said in await until(refused, "the reason is on record")
        await until(lambda: _is(store, "b", "doing"), "the other one follows")


async def test_a_state_that_the_app_refuses_is_shown_once_it_is_allowed(store: PostgresStore, db: Connection) -> None:
    await db.execute("insert into booking values ('a', 'pending'), ('b', 'pending')")
    await db.execute("alter table booking add constraint known check (state in ('pending', 'done'))")
    try:
        answers = await written(
            store,
            a_move("a", 1, "doing"),
            a_move("b", 1, "done", final=True),
        )
        assert [answer.gate for answer in answers] == [Gate.OPEN, Gate.OPEN]
        assert await states(db, "a") == ["doing"]
        async with following(store):
            await until(lambda: _is(store, "b", "done"), "the other one is shown")
            await until(lambda: _tried_again(db), "the follower has tried it more than once")
        assert await shown(db, "a") == "pending"
        assert "known" in await db.fetchval("select error from perdure.behind where id = 'a'")
    finally:
        await db.execute("alter table booking drop constraint known")
    await db.execute("update perdure.behind set next_try = now()")
    async with following(store):
        await until(lambda: nothing_behind(db), "it is shown at last")
    assert await shown(db, "a") == "doing"


async def _tried_again(db: Connection) -> bool:
    return bool(await db.fetchval("select tries > 1 from perdure.behind where id = 'a'"))


TRIGGER = """
    create function {name}() returns trigger language plpgsql as $$ begin {does}; return null; end $$;
    create {kind} trigger {name} after update on booking {timing} for each row execute function {name}()
"""


@asynccontextmanager
async def triggered(db: Connection, does: str, *, deferred: bool = False) -> AsyncIterator[None]:
    """The app has a trigger on its table."""
    kind, timing = ("constraint", "deferrable initially deferred") if deferred else ("", "")
    await db.execute(TRIGGER.format(name="of_the_app", does=does, kind=kind, timing=timing))
    try:
        yield
    finally:
        await db.execute("drop trigger of_the_app on booking; drop function of_the_app")


DISCARDS = {
    "a trigger that returns null": (
        "create function nope() returns trigger language plpgsql as 'begin return null; end';"
        "create trigger nope before update on booking for each row execute function nope()",
        "drop trigger nope on booking; drop function nope()",
    ),
    "a rule that does nothing": (
        "create rule nope as on update to booking do instead nothing",
        "drop rule nope on booking",
    ),
}


@pytest.mark.parametrize("which", DISCARDS)
async def test_a_row_that_does_not_take_the_state_stays_behind_with_the_reason(
    store: PostgresStore, db: Connection, which: str
) -> None:
    discard, undo = DISCARDS[which]
    await db.execute(f"insert into booking values ('a', 'pending'); {discard}")
    try:
        await written(store, a_move("a", 1))
        await Follower(store.pool).once()
        assert "did not take the state" in await db.fetchval("select error from perdure.behind")
    finally:
        await db.execute(undo)
    await db.execute("update perdure.behind set next_try = now()")
    await Follower(store.pool).once()
    assert (await shown(db), await nothing_behind(db)) == ("doing", True)


async def test_a_row_that_shows_the_state_already_needs_no_update(store: PostgresStore, db: Connection) -> None:
    await db.execute("insert into booking values ('a', 'doing')")
    await db.execute(
        "create trigger unchanged before update on booking "
        "for each row execute function suppress_redundant_updates_trigger()"
    )
    try:
        await written(store, a_move("a", 1))
        async with column_role(db) as role:
            await db.execute(f"create policy of_perdure on booking to {role} using (true); set role {role}")
            assert await db.fetchval(SHOW, LIFECYCLE, "a") == "shown"
    finally:
        await db.execute("drop trigger unchanged on booking")


async def test_a_state_is_never_shown_in_several_rows(store: PostgresStore, db: Connection) -> None:
    await db.execute(
        "create table invoice (tenant text, number int, state text default 'open', primary key (tenant, number))"
        "partition by list (tenant); create table invoices partition of invoice default;"
        "insert into invoice values ('north', 1), ('south', 1)"
    )
    try:
        await declared(db, LIFECYCLE, "public.invoice", "number", "state")
        await written(store, a_move("1", 1, "paid"))
        await Follower(store.pool).once()
        assert "2 rows have it" in await db.fetchval("select error from perdure.behind")
        assert await db.fetchval("select count(*) from invoice where state = 'open'") == 2
    finally:
        await db.execute("drop table invoice")


KEYS = {
    "the primary key": ("id int primary key", True),
    "a unique index": ("id int unique", True),
    "a part of the primary key": ("id int, tenant text, primary key (tenant, id)", False),
    "a unique index on some rows": ("id int, gone bool); create unique index on invoice (id) where (not gone", False),
}


@pytest.mark.parametrize("which", KEYS)
async def test_a_key_that_is_not_unique_is_refused_beforehand(db: Connection, which: str) -> None:
    columns, unique = KEYS[which]
    await db.execute(f"create table invoice (state text, {columns})")
    column = AppColumn("invoice", "state")
    try:
        with (
            nullcontext()
            if unique
            else pytest.raises(DeclarationError, match=r"unique index on public\.invoice \(id\)")
        ):
            await find(db, LIFECYCLE, column)
    finally:
        await db.execute("drop table invoice")


async def test_a_column_that_no_update_can_change_is_refused_beforehand(db: Connection) -> None:
    await db.execute(
        "create table invoice (id int primary key, sent text, state text generated always as (upper(sent)) stored);"
        "create view invoices as select id, max(sent) as state from invoice group by id;"
        "create view sent as select id, sent as state from invoice"
    )
    try:
        for name in ("invoice", "invoices"):
            with pytest.raises(DeclarationError, match="no update can change"):
                await find(db, LIFECYCLE, AppColumn(name, "state"))
        assert (await find(db, LIFECYCLE, AppColumn("sent", "state")))["app_table"] == "public.sent"
    finally:
        await db.execute("drop table invoice cascade")


TRIGGERS = {
    "that needs a row which the app holds": ("update comment set body = body where id = 1", False),
    "that takes 2 s": ("perform pg_sleep(2)", False),
    "that refuses at the commit": ("raise exception 'never'", True),
}


@pytest.mark.parametrize("which", TRIGGERS)
async def test_a_trigger_of_the_app_holds_up_no_effect(store: PostgresStore, db: Connection, which: str) -> None:
    does, deferred = TRIGGERS[which]
    await db.execute("insert into booking select g::text, 'pending' from generate_series(1, 60) g")
    await db.execute("delete from comment; insert into comment (id) values (1)")
    async with triggered(db, does, deferred=deferred), db.transaction():
        await db.execute("select from comment for update")
        async with following(store), asyncio.timeout(DEADLINE):
            begins = [a_begin(n, 1, entering="doing") for n in range(1, 61)]
            answers = await written(store, *begins)
            outcomes = [an_outcome(n, 2, EffectStatus.DONE) for n in range(1, 61)]
            assert {each.verdict for each in await written(store, *outcomes)} == {Verdict.STORED}
    assert {each.verdict for each in answers} == {Verdict.FRESH}
    assert {each.state for each in answers} == {"doing"}


async def test_rows_whose_trigger_is_slow_all_follow(store: PostgresStore, db: Connection) -> None:
    await db.execute("insert into booking select g::text, 'pending' from generate_series(1, 120) g")
    await written(store, *(a_move(n, 1) for n in range(1, 121)))
    async with triggered(db, "perform pg_sleep(0.02)"), following(store):
        await until(lambda: nothing_behind(db), "all are shown")
    assert await db.fetchval("select count(*) from booking where state = 'doing'") == 120


@pytest.mark.parametrize(
    "does",
    [
        "raise exception 'never'",
        "perform pg_sleep(10)",
        "raise exception 'the other server is away' using errcode = 'sqlclient_unable_to_establish_sqlconnection'",
    ],
    ids=["refused", "too slow", "needs another server, which is away"],
)
async def test_one_row_that_can_not_be_shown_keeps_no_other_back(
    store: PostgresStore, db: Connection, does: str
) -> None:
    await db.execute("insert into booking select g::text, 'pending' from generate_series(1, 250) g")
    await written(store, *(a_move(n, 1) for n in range(1, 251)))
    async with triggered(db, f"if new.id = '7' then {does}; end if", deferred=True), following(store):
        shown = "select count(*) = 249 from booking where state = 'doing'"
        await until(lambda: db.fetchval(shown), "all others are shown")

        async def refused() -> bool:
            return bool(await db.fetchval("select error is not null from perdure.behind where id = '7'"))

        await until(refused, "the reason is on record")
    assert await shown_behind(db) == ["7"]


async def test_deferred_triggers_find_the_apps_tables_by_its_own_path(dsn: str, db: Connection) -> None:
    await db.execute("insert into booking values ('a', 'pending'), ('b', 'pending')")
    async with a_follower(dsn) as (follower, pool):
        await written(PostgresStore(pool), a_move("a", 1), a_move("b", 1))
        does = "perform from comment; if new.id = 'b' then raise exception 'never'; end if"
        async with triggered(db, does, deferred=True):
            await follower.once()
    assert (await shown(db), await shown_behind(db)) == ("doing", ["b"])


SET_BY_A_TRIGGER = {
    "a time-out": ("statement_timeout", "1"),
    "reads alone": ("default_transaction_read_only", "on"),
    "a path": ("search_path", "nowhere"),
    "weak commits": ("synchronous_commit", "off"),
    "a role": ("role", "postgres"),
}


@pytest.mark.parametrize("which", SET_BY_A_TRIGGER)
async def test_what_a_trigger_sets_in_its_session_keeps_no_other_row_back(dsn: str, db: Connection, which: str) -> None:
    name, value = SET_BY_A_TRIGGER[which]
    await db.execute("insert into booking values ('a', 'pending'), ('b', 'pending')")
    async with a_follower(dsn) as (follower, pool), store_at(dsn) as store:
        before = await pool.fetchval("select current_setting($1)", name)
        async with triggered(db, f"if new.id = 'a' then perform set_config('{name}', '{value}', false); end if"):
            await written(store, a_move("a", 1))
            await follower.once()
            await written(store, a_move("b", 1))
            await follower.once()
        assert await pool.fetchval("select current_setting($1)", name) == before
    assert [await shown(db, each) for each in ("a", "b")] == ["doing", "doing"]


@asynccontextmanager
async def a_follower(dsn: str) -> AsyncIterator[tuple[Follower, Pool]]:
    """A follower with the sessions that a worker gives it."""
    database = Database(dsn, most=1, closed_path=True, triggers=True)
    pool = await database.open()
    try:
        yield Follower(pool), pool
    finally:
        await database.close()


async def test_very_many_rows_of_one_table_that_can_not_be_shown_keep_no_other_table_back(
    store: PostgresStore, db: Connection
) -> None:
    await db.execute("insert into booking values ('a', 'pending')")
    await db.execute(
        "insert into perdure.behind (lifecycle, id, version, app_table, app_column, app_key) "
        "select 'other', n::text, 1, 'public.nowhere', 'state', 'id' from generate_series(1, 1000000) n"
    )
    await written(store, a_move("a", 1))
    async with following(store):
        await until(lambda: _is(store, "a", "doing"), "the other table follows")


async def shown_behind(db: Connection) -> list[str]:
    """Entities whose app row is behind."""
    return [row["id"] for row in await db.fetch("select distinct id from perdure.behind order by id")]
