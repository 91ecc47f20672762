"""Functions of the schema: a file whose text has changed is applied again, and an older release puts nothing back."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from dataclasses import replace

import asyncpg
import pytest

from perdure._store import schema
from perdure.errors import SchemaMismatch
from tests.deadline import DEADLINE
from tests.integration.store.schemas import blank, catalog, command, empty
from tests.integration.store.stores import Connection

__all__ = ["blank", "empty"]

OTHER = "create or replace function perdure.utc(given timestamptz) returns text language sql as $$ select 'other' $$;"
UTC = "select perdure.utc(now())"
RIGHTS = """
    select p.proname::text, coalesce(r.rolname, 'public')::text, a.is_grantable
    from pg_proc p, aclexplode(p.proacl) a left join pg_roles r on r.oid = a.grantee
    where p.pronamespace = 'perdure'::regnamespace and a.grantee <> p.proowner order by 1, 2"""


def with_text(monkeypatch: pytest.MonkeyPatch, name: str, sql: str) -> None:
    """This version has another text of a function, or one more."""
    others = tuple(each for each in schema.functions() if each.name != name)
    monkeypatch.setattr(schema, "functions", lambda: (*others, schema.Function(name, sql)))


def as_release(monkeypatch: pytest.MonkeyPatch, release: str) -> None:
    """This version is that release."""
    monkeypatch.setattr(schema, "release", lambda: release)


async def test_a_function_whose_text_has_changed_is_applied_by_the_next_migration_and_no_other(
    empty: str, blank: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    await schema.migrate(blank)
    before = {row["name"]: row for row in await blank.fetch("select *, xmin::text from perdure.applied_function")}
    with_text(monkeypatch, "utc", OTHER)
    with pytest.raises(SchemaMismatch, match=r"not those of this version \(utc\): run `perdure migrate`"):
        await schema.check(blank)
    applied = await schema.migrate(blank)
    assert (applied.migrations, [each.name for each in applied.functions]) == ([], ["utc"])
    await schema.check(blank)
    assert await blank.fetchval(UTC) == "other"
    after = {row["name"]: row for row in await blank.fetch("select *, xmin::text from perdure.applied_function")}
    assert {name for name in after if after[name] != before[name]} == {"utc"}
    assert await schema.migrate(blank) == schema.Applied()


async def test_the_command_names_the_functions_that_it_applied(empty: str, blank: Connection) -> None:
    await schema.migrate(blank)
    await blank.execute(OTHER + "update perdure.applied_function set sha256 = 'another' where name in ('utc', 'start')")
    assert await command(empty, "migrate") == (0, "applied functions: start, utc\n", "")
    assert await command(empty, "migrate") == (0, "up to date\n", "")
    assert await blank.fetchval(UTC) != "other"


async def test_who_could_execute_a_function_can_execute_its_new_text_and_nobody_else(
    blank: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    await schema.migrate(blank)
    await blank.execute("create role app_of_before")
    try:
        await blank.execute("grant execute on function perdure.utc to app_of_before with grant option")
        with_text(monkeypatch, "utc", OTHER)
        await schema.migrate(blank)
        assert [tuple(row) for row in await blank.fetch(RIGHTS)] == [("utc", "app_of_before", True)]
    finally:
        await blank.execute("drop schema perdure cascade; drop role app_of_before")


async def test_a_function_that_is_new_is_applied_and_closed(blank: Connection, monkeypatch: pytest.MonkeyPatch) -> None:
    await schema.migrate(blank)
    with_text(monkeypatch, "added", OTHER.replace(".utc(", ".added("))
    assert [each.name for each in (await schema.migrate(blank)).functions] == ["added"]
    assert await blank.fetch(RIGHTS) == []


async def test_an_older_release_puts_no_older_text_back_and_says_so(
    empty: str, blank: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as newer:
        with_text(newer, "utc", OTHER)
        as_release(newer, "999.10.0")
        await schema.migrate(blank)
    before = await catalog(blank)
    await schema.check(blank)
    assert await schema.migrate(blank) == schema.Applied(newer=True)
    said = f"the schema is of a newer release than this one ({schema.release()}): its functions stay\n"
    assert await command(empty, "migrate") == (0, said, "")
    as_release(monkeypatch, "999.9.0")
    assert await schema.migrate(blank) == schema.Applied(newer=True), "compared by numbers, not as text"
    assert await catalog(blank) == before
    as_release(monkeypatch, "999.10.0")
    assert [each.name for each in (await schema.migrate(blank)).functions] == ["utc"], "of the same release"


async def test_an_older_release_brings_no_function_back_that_a_newer_migration_has_dropped(
    blank: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    await schema.migrate(blank)
    drop = "drop function perdure.utc; delete from perdure.applied_function where name = 'utc'"
    with monkeypatch.context() as newer:
        known, kept = schema.migrations(), tuple(each for each in schema.functions() if each.name != "utc")
        newer.setattr(schema, "migrations", lambda: [*known, schema.Migration(known[-1].number + 1, "drops", drop)])
        newer.setattr(schema, "functions", lambda: kept)
        await schema.migrate(blank)
    assert await schema.migrate(blank) == schema.Applied(newer=True)
    assert await blank.fetchval("select to_regproc('perdure.utc')") is None
    await schema.check(blank)


async def test_two_that_migrate_at_once_apply_a_changed_text_once(
    empty: str, blank: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    await schema.migrate(blank)
    with_text(monkeypatch, "utc", OTHER)
    async with AsyncExitStack() as stack:
        both = [await asyncpg.connect(empty) for _ in range(2)]
        for each in both:
            stack.push_async_callback(each.close)
        async with blank.transaction():  # both wait here, and begin together
            await blank.execute("lock table perdure.migration in share row exclusive mode")
            at_once = [asyncio.ensure_future(schema.migrate(each)) for each in both]
            waiting = "select count(*) = 2 from pg_locks where not granted and relation = 'perdure.migration'::regclass"
            async with asyncio.timeout(DEADLINE):
                while not await blank.fetchval(waiting):
                    await asyncio.sleep(0.01)
        applied = await asyncio.gather(*at_once)
    assert sorted(len(each.functions) for each in applied) == [0, 1]


async def test_a_text_that_fails_leaves_all_as_it_was(blank: Connection, monkeypatch: pytest.MonkeyPatch) -> None:
    await schema.migrate(blank)
    before = await catalog(blank)
    good, bad = schema.Function("utc", OTHER), schema.Function("zzz", "create or replace function perdure.zzz() oops")
    monkeypatch.setattr(schema, "functions", lambda: (good, bad))
    with pytest.raises(asyncpg.PostgresSyntaxError):
        await schema.migrate(blank)
    assert await catalog(blank) == before


async def test_each_function_is_valid_and_stands_in_the_file_of_its_name(blank: Connection) -> None:
    """While they are applied PostgreSQL does not look into them, so that they may come in any order."""
    await schema.migrate(blank)
    for each in schema.functions():
        await blank.execute(each.sql)
    made = await blank.fetch("select proname::text from pg_proc where pronamespace = 'perdure'::regnamespace")
    names = {row[0].removesuffix("_any").removesuffix("_scoped") for row in made}
    assert names == {each.name for each in schema.functions()}


async def test_the_functions_may_be_applied_in_any_order(blank: Connection, monkeypatch: pytest.MonkeyPatch) -> None:
    await schema.migrate(blank)
    forwards = await catalog(blank)
    await blank.execute("drop schema perdure cascade")
    backwards = tuple(replace(each) for each in reversed(schema.functions()))
    monkeypatch.setattr(schema, "functions", lambda: backwards)
    await schema.migrate(blank)
    assert await catalog(blank) == forwards
