"""MISSING: rows of the app that should have a lifecycle are started, and a query that costs too much is refused."""

from __future__ import annotations

import asyncio
import base64
import json
import os
from collections.abc import AsyncIterator
from typing import Any

import asyncpg
import pytest
from typer.testing import CliRunner

from perdure import Entity
from perdure._reconcile import expected
from perdure._reconcile import missing as module
from perdure._reconcile.expected import Expected
from perdure._reconcile.missing import missing
from perdure._store.connecting import open_pool
from perdure._worker.plugin import _check as check_at_start
from perdure.cli import cli
from perdure.contracts import AppRows
from perdure.encryption import Private
from perdure.errors import DeclarationError
from tests.apps import purchases
from tests.apps.expecting import PENDING, TABLE, app_of
from tests.integration.reconcile.reconciling import Reconciling, reconciling
from tests.world import World
from workers.comments.app import app as comments

LISTED = "select id from perdure.outbox order by id"


@pytest.fixture
async def chores(world: World) -> AsyncIterator[Reconciling]:
    """A table of chores, and an app that expects a lifecycle for each pending one."""
    await world.db.execute(TABLE)
    async with reconciling(world, app_of(PENDING)) as made:
        yield made


async def test_a_row_without_a_lifecycle_is_started_once_and_the_others_are_left_alone(
    world: World, chores: Reconciling, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(expected, "PAGE", 3)
    await world.db.execute("""
        insert into chore select n, 'do ' || n, 'pending', 't' || n % 2 from generate_series(1, 8) n;
        insert into chore values (9, 'is done', 'done');
        select perdure.start('chore', '1', '{"body": "its own"}');
        insert into perdure.ident (lifecycle, id, final) values ('chore', '2', 'done');
        delete from perdure.outbox
    """)
    assert await chores.run(missing) == [("missing", str(number), True) for number in range(3, 9)]
    started = await world.db.fetch("select id, input, tenant, state from perdure.entity where id > '1' order by id")
    assert [(row["id"], json.loads(row["input"])["body"]) for row in started] == [
        (str(number), f"do {number}") for number in range(3, 9)
    ]
    assert {row["tenant"] for row in started} == {"t0", "t1"}
    assert [row["id"] for row in await world.db.fetch(LISTED)] == [str(number) for number in range(3, 9)]
    noted = "select count(*) from perdure.transition where made_by = 'reconciliation' and why like '%no lifecycle%'"
    assert await world.db.fetchval(noted) == 6
    assert await chores.run(missing) == []
    assert await world.db.fetchval(noted) == 6


async def test_rows_that_came_with_a_copied_database_are_not_started(world: World, chores: Reconciling) -> None:
    await world.db.execute("insert into chore values (1, 'do it', 'pending')")
    await world.db.execute("update perdure.database set copied_at = now()")
    assert await chores.run(missing) == []
    await world.db.execute("update perdure.database set copied_at = null")
    assert await chores.run(missing) == [("missing", "1", True)]


async def test_a_row_that_can_not_be_started_is_reported_and_the_others_go_on(
    world: World, chores: Reconciling
) -> None:
    sql = """
        select case id when 3 then ' three ' when 4 then null else id::text end as id,
            case id when 5 then to_jsonb(1 / (id - 5)) when 7 then to_jsonb(1e4500::numeric)
                when 8 then (repeat('[', 1200) || repeat(']', 1200))::jsonb else jsonb_build_object('body', body)
            end as input
        from chore where state = 'pending'
    """
    chores.app = app_of(sql)
    await world.db.execute("insert into chore select n, nullif('do ' || n, 'do 2') from generate_series(1, 9) n")
    found = await chores.run(missing)
    assert [row["id"] for row in await world.db.fetch(LISTED)] == ["1", "6", "9"]
    assert found == [
        *[("missing", None, False)] * 2,  # ' three ' and null
        ("missing", "1", True),
        ("missing", "2", False),
        ("missing", "5", False),
        ("missing", "6", True),
        ("missing", "7", False),
        ("missing", "8", False),
        ("missing", "9", True),
    ]
    rows = await world.db.fetch(
        "select coalesce(nullif(id, ''), about) as id, what from perdure.finding where not mended"
    )
    why = {row["id"]: row["what"] for row in rows}
    assert "chore: the input does not fit: body" in why["2"]
    assert "division by zero" in why["5"]
    assert "its JSON has an integer with more digits than Python reads" in why["7"]
    assert "its JSON is nested 100 levels deep or deeper" in why["8"]
    assert "blanks at an end" in why["chore:  three "]
    assert "its id is null" in why["chore: None"]
    await world.db.execute("update chore set body = 'corrected' where id = 2")
    assert ("missing", "2", True) in await chores.run(missing, only=Entity("chore", "2"))
    assert await world.db.fetchval("select count(*) from perdure.finding where id = '2'") == 1


async def test_a_row_has_one_lifecycle_however_the_app_spells_its_uuid(world: World, chores: Reconciling) -> None:
    key = "6f1c1c0e-9c7e-4a3b-8c0e-0f2d6a7b8c9d"
    await world.db.execute("create table ticket (id uuid primary key)")
    await world.db.execute("insert into ticket values ($1)", key)
    await world.db.execute("select perdure.start('chore', $1, '{\"body\": \"its own\"}')", key.upper())
    chores.app = app_of('select id, \'{"body": "do it"}\'::jsonb as input from ticket')
    assert await chores.run(missing) == [("missing", key, False)]
    [(_, what, _)] = await chores.found("missing")
    assert f"chore was started with this UUID as '{key.upper()}'" in what
    assert await world.db.fetchval("select count(*) from perdure.ident") == 1


async def test_rows_with_times_that_python_has_not_are_started(world: World, chores: Reconciling) -> None:
    await world.db.execute("create table dated (id date primary key); create table timed (id time primary key)")
    await world.db.execute("insert into dated values ('0044-03-15 BC'); insert into timed values ('24:00:00')")
    nothing = "select 'x' as id, null::jsonb as input where false"
    dated, timed = (f'select id, \'{{"body": "do it"}}\'::jsonb as input from {each}' for each in ("dated", "timed"))
    chores.app = app_of(dated, timed, nothing)
    assert await chores.run(missing) == [("missing", "0044-03-15 BC", True), ("missing", "24:00:00", True)]


async def test_private_fields_of_a_row_are_sealed_for_its_entity(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    await world.db.execute(TABLE + "insert into chore values (1, '+15550100123')")
    monkeypatch.setenv("PERDURE_SEAL", "true")
    monkeypatch.setenv("PERDURE_KEYS", "k1:" + base64.b64encode(os.urandom(32)).decode())
    rows = AppRows("select id, jsonb_build_object('phone', body) as input from chore where state = 'pending'")
    monkeypatch.setattr(purchases.PurchaseLifecycle, "expects", rows)
    async with reconciling(world, purchases.app) as made:
        assert await made.run(missing) == [("missing", "1", True)]
    sealed = json.loads(await world.db.fetchval("select input from perdure.entity"))["phone"]
    assert sealed.startswith("perdure-sealed:2:k1:phone:")
    assert Private(sealed).open(Entity("purchase", "1")) == "+15550100123"


async def test_what_an_app_starts_at_this_moment_is_its_own(world: World, chores: Reconciling) -> None:
    await world.db.execute("insert into chore values (1, 'do 1')")
    other = await asyncpg.connect(world.dsn)
    async with other.transaction():
        await other.execute("""select perdure.start('chore', '1', '{"body": "the app''s"}')""")
        assert await chores.run(missing) == []
    await other.close()
    assert json.loads(await world.db.fetchval("select input from perdure.entity")) == {"body": "the app's"}


@pytest.mark.parametrize(("waits", "started"), [(60.0, ["31", "4", "61"]), (0.0, ["61"])])
async def test_rows_that_another_session_starts_are_left_and_the_others_go_on(
    world: World, chores: Reconciling, monkeypatch: pytest.MonkeyPatch, waits: float, started: list[str]
) -> None:
    monkeypatch.setattr(module, "WAITS", waits)
    monkeypatch.setattr(expected, "PAGE", 10)
    await world.db.execute("insert into chore select n, 'do ' || n from generate_series(1, 61) n")
    other = await asyncpg.connect(world.dsn)
    calls, commit = 0, module._Search._commit

    async def counted(*given: Any) -> Any:
        nonlocal calls
        calls += 1
        return await commit(*given)

    monkeypatch.setattr(module._Search, "_commit", counted)
    async with other.transaction():
        start = "select perdure.start('chore', n::text, '{\"body\": \"x\"}') from generate_series(1, 60) n"
        await other.execute(f"{start} where n not in (4, 31)")
        assert await chores.run(missing) == [("missing", each, True) for each in started]
        assert waits or calls == 7, "one wait for each page"
    await other.close()


async def test_many_are_counted_rather_than_listed(
    world: World, chores: Reconciling, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "NAMED", 2)
    await world.db.execute("insert into chore select n, case when n > 5 then 'do it' end from generate_series(1, 10) n")
    found = await chores.run(missing)
    assert [entity_id for _, entity_id, _ in found] == [None, None, "1", "10", "2", "6"]
    rows = await world.db.fetch("select what from perdure.finding where id = '' order by mended")
    assert [row["what"] for row in rows] == [
        "3 more rows for chore have no lifecycle, and can't be started as they are",
        "3 more of chore had no lifecycle, and were started",
    ]
    assert await world.db.fetchval("select count(*) from perdure.outbox") == 5


COSTS = {
    PENDING: False,  # a partial index
    "select id, null::jsonb as input from chore where id between 5 and 10": False,
    "select id, null::jsonb as input from chore where state <> 'done'": True,  # no index
    "select id, null::jsonb as input from chore where tenant = 'x' order by id": True,  # an index, but all of it
}


async def test_a_query_that_reads_a_big_table_from_end_to_end_is_refused(
    world: World, chores: Reconciling, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(expected, "BIG", 5_000)
    await world.db.execute("insert into chore select n, 'x', 'done' from generate_series(1, 6000) n; analyze chore")
    refused = "PostgreSQL would read all of public.chore, some 6,000 rows"
    async with chores.pool.acquire() as db, db.transaction():
        await db.execute("set local enable_sort = off")
        why = {sql: await Expected("chore", AppRows(sql)).refusal(db) for sql in COSTS}
    assert why == {sql: refused if too_much else None for sql, too_much in COSTS.items()}


async def test_a_big_record_is_not_read_from_end_to_end(world: World, chores: Reconciling) -> None:
    await world.db.execute("""
        insert into perdure.ident (lifecycle, id) select 'chore', 'x' || n from generate_series(1, 3000) n;
        insert into chore select n, 'do it' from generate_series(1, 3000) n; analyze perdure.ident; analyze chore
    """)
    plan = await world.db.fetch(f"explain {Expected('chore', AppRows(PENDING))._ids()}")
    assert "using ident_pkey on ident" in str(plan)


async def test_a_query_that_can_not_be_used_is_reported_and_harms_no_other_lifecycle(
    world: World, chores: Reconciling, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(expected, "BIG", 5)
    monkeypatch.setattr(expected, "TIMEOUT", "2s")
    chores.app = app_of(
        "select id, null::jsonb as input from chore",
        "select 'x' as id, null::jsonb as input from pg_sleep(10)",
        "select 'good' as id, '{\"body\": \"do it\"}'::jsonb as input",
    )
    await world.db.execute("insert into chore select n, 'do it', 'done' from generate_series(1, 10) n; analyze chore")
    assert await chores.run(missing) == [*[("missing", None, False)] * 2, ("missing", "good", True)]
    rows = await world.db.fetch("select what from perdure.finding where id = '' order by about")
    [too_big, sleeps] = [row["what"] for row in rows]
    assert too_big.endswith("chore-a.expects can't be used: PostgreSQL would read all of public.chore, some 10 rows")
    assert "statement timeout" in sleeps


async def test_rows_that_row_level_security_may_hide_are_not_passed_over_in_silence(
    world: World, chores: Reconciling
) -> None:
    role = f"{world.scope}_worker"
    await world.db.execute(f"""
        create role {role} login; grant select on chore to {role};
        insert into chore select n, 'do it', 'pending' from generate_series(1, 2) n;
        alter table chore enable row level security;
        create policy one on chore using (id = 1);
    """)
    granted = await asyncio.to_thread(
        CliRunner().invoke, cli, ["grant", role, "--as", "worker"], env=world.environment()
    )
    assert granted.exit_code == 0, granted.output
    chores.pool = await open_pool(world.dsn.replace("postgres@", f"{role}@"), 3)
    try:
        assert await chores.run(missing) == [("missing", None, False), ("missing", "1", True)]
        finding = await world.db.fetchrow("select what, advice from perdure.finding where id = ''")
        assert finding
        assert f"row-level security of chore may hide rows from the role {role}" in finding["what"]
        assert "BYPASSRLS" in finding["advice"]
        await world.db.execute(f"create policy all_shown on chore to {role} using (true)")
        assert await chores.run(missing) == [("missing", "2", True)]
    finally:
        await chores.pool.close()


BROKEN = {
    "select id from chore": "q.input does not exist",
    "select body as input from chore": "q.id does not exist",
    "select id, body as input from chores": '"chores" does not exist',
    "select 1 as id, null as input; drop table chore": "syntax error",
}


async def test_a_worker_does_not_start_with_a_query_that_postgres_can_not_run(
    world: World, chores: Reconciling
) -> None:
    for sql, why in BROKEN.items():
        with pytest.raises(DeclarationError, match=f"chore: PostgreSQL can't run the query of `expects`: .*{why}"):
            await check_at_start(chores.pool, app_of(sql), chores.pool, _unversioned)
    await check_at_start(chores.pool, app_of(PENDING), chores.pool, _unversioned)
    async with world.db.transaction():
        await world.db.execute("lock table chore")  # as a migration of the app's does
        await check_at_start(chores.pool, app_of(PENDING), chores.pool, _unversioned)


async def _unversioned() -> bool:
    return False


async def test_a_comment_that_nobody_started_is_started(world: World) -> None:
    await world.db.execute("insert into comment default values")
    async with reconciling(world, comments) as parts:
        assert await parts.run(missing) == [("missing", "1", True)]
    assert json.loads(await world.db.fetchval("select input from perdure.entity"))["recipient"] == "bob@example.org"
