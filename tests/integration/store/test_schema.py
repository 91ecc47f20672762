"""The schema: made once however many ask for it, all of it or nothing, in any zone, and closed to the public."""

from __future__ import annotations

import asyncio
import secrets
import shutil
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from perdure._store import schema
from perdure._store.schema import files
from perdure.errors import NotNow, SchemaMismatch
from perdure.servers.postgres import PostgresServer
from tests.deadline import in_time, until
from tests.integration.store.schemas import blank, catalog, command, empty
from tests.integration.store.stores import Connection, run_on

__all__ = ["blank", "empty"]

NEWEST = schema.migrations()[-1].number
BOUNDS = """
    select inhparent::regclass::text as parent, c.relname, pg_get_expr(c.relpartbound, c.oid) as bound
    from pg_inherits join pg_class c on c.oid = inhrelid
    where c.relkind = 'r' and c.relnamespace = 'perdure'::regnamespace order by 1, 2
"""


async def test_ten_that_migrate_at_once_make_it_once(empty: str) -> None:
    async with AsyncExitStack() as stack:
        connections = [await asyncpg.connect(empty) for _ in range(10)]
        for each in connections:
            stack.push_async_callback(each.close)
        applied = await asyncio.gather(*(schema.migrate(each) for each in connections))
        assert sorted(len(each.migrations) for each in applied) == [0] * 9 + [len(schema.migrations())]
        assert sorted(len(each.functions) for each in applied) == [0] * 9 + [len(schema.functions())]
        await schema.check(connections[0])


async def test_the_command_migrates_however_many_run_it(empty: str, blank: Connection) -> None:
    ends = await asyncio.gather(*(command(empty, "migrate") for _ in range(3)))
    every = "".join(f"applied {each.number:04} {each.name}\n" for each in schema.migrations())
    every += f"applied {len(schema.functions())} functions\n"
    assert sorted(ends, key=lambda end: len(end[1])) == [(0, "up to date\n", "")] * 2 + [(0, every, "")]
    await schema.check(blank)


async def test_the_printed_script_makes_the_very_same_schema(empty: str, blank: Connection, database: str) -> None:
    status, printed, complaint = await command(empty, "schema")
    assert (status, complaint) == (0, "")
    await blank.execute(printed)
    await schema.check(blank)
    by_script = await catalog(blank)
    await blank.execute("drop schema perdure cascade")
    await schema.migrate(blank)
    assert by_script == await catalog(blank)


async def test_a_script_that_is_run_twice_changes_nothing(blank: Connection) -> None:
    await blank.execute(schema.script())
    before = await catalog(blank)
    with pytest.raises(asyncpg.DuplicateTableError):
        await blank.execute(schema.script())
    await blank.execute("rollback")
    assert await catalog(blank) == before


@pytest.mark.parametrize("encoding", ["LATIN1", "SQL_ASCII"])
async def test_a_database_that_is_not_in_utf8_is_refused(postgres: PostgresServer, encoding: str) -> None:
    name = "encoded_" + secrets.token_hex(6)
    why = f"the database '{name}' has the encoding {encoding}, and Perdure needs UTF8: run `create database "
    await run_on(postgres.dsn(), f"create database {name} encoding '{encoding}' locale 'C' template template0")
    try:
        status, printed, complaint = await command(postgres.dsn(name), "migrate")
        assert (status, printed, complaint.count("\n")) == (2, "", 1)
        assert complaint.startswith(f"perdure: {why}")
        connection = await asyncpg.connect(postgres.dsn(name))
        with pytest.raises(asyncpg.FeatureNotSupportedError, match=why):
            await connection.execute(schema.script())
        await connection.execute("rollback")
        assert await connection.fetchval("select to_regnamespace('perdure')") is None
        await connection.close()
    finally:
        await run_on(postgres.dsn(), f"drop database {name} with (force)")


async def test_a_database_without_the_schema_says_how_to_make_it(blank: Connection) -> None:
    with pytest.raises(SchemaMismatch, match=r"'empty_.*' has no perdure schema: run `perdure migrate`"):
        await schema.check(blank)


async def test_an_older_schema_says_how_to_bring_it_up_to_date(
    blank: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    await blank.execute(schema.script())
    monkeypatch.setattr(schema, "migrations", _known_and(schema.Migration(NEWEST + 1, "adds", "")))
    with pytest.raises(SchemaMismatch, match=f"at {NEWEST}, this version needs {NEWEST + 1}: run `perdure migrate`"):
        await schema.check(blank)


async def test_a_newer_schema_that_demands_nothing_new_is_worked_with(blank: Connection) -> None:
    await blank.execute(schema.script())
    await blank.execute(
        "insert into perdure.migration (number, name, oldest) values (9998, 'adds', 1), (9999, 'adds_more', $1)", NEWEST
    )
    before = await catalog(blank)
    await schema.check(blank)
    assert await schema.migrate(blank) == schema.Applied(newer=True)
    assert await catalog(blank) == before


@pytest.mark.parametrize("followed_by_another", [False, True])
async def test_a_newer_schema_that_demands_newer_workers_is_left_alone_and_said(
    empty: str, blank: Connection, followed_by_another: bool
) -> None:
    await blank.execute(schema.script())
    await blank.execute(
        "insert into perdure.migration (number, name, oldest) values (9998, 'takes_away', $1)", NEWEST + 1
    )
    if followed_by_another:
        await blank.execute("insert into perdure.migration (number, name) values (9999, 'adds')")
    for act in (schema.check, schema.migrate):
        with pytest.raises(SchemaMismatch, match=rf"9998 .* have {NEWEST + 1:04}; the newest .* {NEWEST:04}: install"):
            await act(blank)
    status, said, complaint = await command(empty, "migrate")
    assert (status, said) == (1, "")
    assert complaint.startswith("perdure: migration 9998 of the perdure schema is for versions that have")
    assert complaint.count("\n") == 1


async def test_what_a_migration_demands_of_workers_stands_in_its_file_and_then_in_the_database(
    blank: Connection, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    shutil.copytree(Path(schema.__file__).parent, tmp_path, dirs_exist_ok=True)
    (tmp_path / "0900_adds.sql").write_text("-- Adds.\ncreate table perdure.a (id int);\n")
    (tmp_path / "0901_takes_away.sql").write_text("-- Takes away.\n-- oldest worker: 900\ndrop table perdure.a;\n")
    monkeypatch.setattr(files, "folder", lambda: tmp_path)
    oldest = "select array_agg(oldest order by number) from perdure.migration where number >= 900"
    await schema.migrate(blank)
    assert await blank.fetchval(oldest) == [1, 900]
    await blank.execute("drop schema perdure cascade")
    await blank.execute(schema.script())
    assert await blank.fetchval(oldest) == [1, 900]


WAITS = "select exists (select from pg_locks where not granted and relation = to_regclass('perdure.outbox'))"


@pytest.fixture
async def reader(empty: str, blank: Connection, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Connection]:
    """A session that has read the outbox in a transaction that is open, as pg_dump has, before a migration of it."""
    await blank.execute(schema.script())
    more = schema.Migration(NEWEST + 1, "adds", "alter table perdure.outbox add column more int")
    monkeypatch.setattr(schema, "migrations", _known_and(more))
    connection = await asyncpg.connect(empty)
    await connection.execute("begin; select from perdure.outbox")
    yield connection
    await connection.close()


async def test_the_application_goes_on_while_a_migration_waits_for_a_table(
    empty: str, blank: Connection, reader: Connection
) -> None:
    migrating = asyncio.create_task(schema.migrate(blank))
    application = await asyncpg.connect(empty)
    for number in range(2):
        await until(lambda: application.fetchval(WAITS), "the migration waits")
        await in_time(application.execute("select perdure.start('order', $1, '{}')", f"{number}"))
        assert not migrating.done()
    await reader.execute("rollback")
    assert [each.name for each in (await in_time(migrating)).migrations] == ["adds"]
    await application.close()


async def test_a_migration_that_gets_no_lock_names_the_sessions_in_its_way_and_changes_nothing(
    blank: Connection, reader: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(schema, "_PATIENCE", 0.1)
    monkeypatch.setattr(schema, "_TURN", 0.1)
    before = await catalog(blank)
    pid = await reader.fetchval("select pg_backend_pid()")
    with pytest.raises(NotNow, match=rf"as it was: its tables have been in use for 0.1 s, .* \(pids {pid}\): run"):
        await in_time(schema.migrate(blank))
    assert await catalog(blank) == before


async def test_each_table_has_a_replica_identity(blank: Connection) -> None:
    """PostgreSQL refuses to change a published table that has none."""
    await schema.migrate(blank)
    without = """
        select relname from pg_class c where relnamespace = 'perdure'::regnamespace and relkind in ('r', 'p')
            and relreplident <> 'f' and not exists (select from pg_index where indrelid = c.oid and indisprimary)"""
    assert [row["relname"] for row in await blank.fetch(without)] == []


async def test_a_migration_that_fails_leaves_nothing(blank: Connection, monkeypatch: pytest.MonkeyPatch) -> None:
    bad = schema.Migration(NEWEST + 1, "bad", "create table perdure.half (id int); select 1/0")
    with monkeypatch.context() as patch:
        patch.setattr(schema, "migrations", _known_and(bad))
        with pytest.raises(asyncpg.DivisionByZeroError):
            await schema.migrate(blank)
        assert not await blank.fetchval("select exists (select from pg_namespace where nspname = 'perdure')")
    await schema.migrate(blank)
    before = await catalog(blank)
    with monkeypatch.context() as patch:
        patch.setattr(schema, "migrations", _known_and(bad))
        with pytest.raises(asyncpg.DivisionByZeroError):
            await schema.migrate(blank)
    assert await catalog(blank) == before


def _known_and(more: schema.Migration) -> Any:
    known = schema.migrations()
    return lambda: [*known, more]


async def test_a_permission_from_before_passes_to_the_role_that_has_its_name(
    blank: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        before = [each for each in schema.migrations() if each.number < 8]
        patch.setattr(schema, "migrations", lambda: before)
        await schema.migrate(blank)
    await blank.execute("insert into perdure.permission (role, kind) values (current_user, 'app'), ('dropped', 'app')")
    await blank.execute("create publication everything for all tables")  # then a change needs a replica identity
    await schema.migrate(blank)
    rows = await blank.fetch("select role, role_oid = current_user::regrole as its from perdure.permission")
    assert [tuple(row) for row in rows] == [(await blank.fetchval("select current_user"), True)]


@pytest.mark.parametrize(
    ("zone", "style"),
    [("Pacific/Kiritimati", "SQL, DMY"), ("America/St_Johns", "German"), ("Asia/Kathmandu", "Postgres, MDY")],
)
async def test_the_months_are_those_of_utc_in_any_zone(empty: str, blank: Connection, zone: str, style: str) -> None:
    await blank.execute(f"set timezone = '{zone}'; set datestyle = '{style}'")
    await schema.migrate(blank)
    await blank.execute("set timezone = 'UTC'; set datestyle = 'ISO'")
    rows = await blank.fetch(BOUNDS)
    first = await blank.fetchval("select date_trunc('month', now() at time zone 'UTC')::date - interval '1 month'")
    for parent in ("perdure.finished", "perdure.transition"):
        months = [row for row in rows if row["parent"] == parent]
        assert len(months) == 26, "last month, this one, and 24 to come"
        for number, row in enumerate(months):
            expected = await blank.fetchrow(
                "select to_char($1::timestamp + make_interval(months => $2), 'YYYY_MM'), "
                "format($$FOR VALUES FROM ('%s 00:00:00+00') TO ('%s 00:00:00+00')$$, "
                "($1::timestamp + make_interval(months => $2))::date, "
                "($1::timestamp + make_interval(months => $2 + 1))::date)",
                first,
                number,
            )
            assert expected is not None
            assert (row["relname"], row["bound"]) == (f"{parent.removeprefix('perdure.')}_{expected[0]}", expected[1])
    await blank.execute(f"set timezone = '{zone}'")
    assert await blank.fetchval("select perdure.make_months()") == 0, "the same months in another zone"


async def test_migrating_again_makes_the_months_that_have_come(blank: Connection) -> None:
    await schema.migrate(blank)
    newest = (await blank.fetch(BOUNDS))[-1]["relname"]
    await blank.execute(f"drop table perdure.{newest}")
    assert await schema.migrate(blank) == schema.Applied()
    assert (await blank.fetch(BOUNDS))[-1]["relname"] == newest


async def test_a_month_is_made_where_system_columns_have_a_statistics_target(blank: Connection) -> None:
    """Up to PostgreSQL 16 it is 0 for each of them, as it is for the payload columns here."""
    await schema.migrate(blank)
    marked = "attrelid = 'perdure.transition'::regclass and attnum < 0"
    assert await blank.execute(f"update pg_attribute set attstattarget = 0 where {marked}") == "UPDATE 6"
    assert await blank.fetchval("select perdure.make_month('2099-01-01')") == 2
