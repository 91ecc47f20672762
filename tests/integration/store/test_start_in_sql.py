"""`perdure.start` in the app's transaction starts once, with the app's row or not at all, and needs a right."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator

import asyncpg
import pytest

from perdure._store import schema
from perdure._text.shown import UNSEEN
from tests.deadline import until
from tests.integration.store.stores import Connection

START = "select perdure.start($1, $2, '{}')"
TABLES = ("ident", "entity", "outbox", "transition")
BAD_NAMES = {
    "null": None,
    "empty": "",
    "upper case": "Booking",
    "a blank": "er rand",
    "a digit first": "1st",
    "too long": "e" * 64,
}
BAD_IDS = {
    "null": None,
    "empty": "",
    "too long": "x" * 901,
    "a line break": "a\nb",
    "a tab": "a\tb",
    "DEL": "a\x7f",
    "blank at the end": "a ",
    "only blanks": "  ",
}


@pytest.fixture
async def other(dsn: str, db: Connection) -> AsyncIterator[Connection]:
    """A second connection of the app."""
    connection = await asyncpg.connect(dsn)
    yield connection
    await connection.close()


@pytest.fixture
async def stranger(db: Connection) -> AsyncIterator[str]:
    """A role to which nothing was granted."""
    name = "stranger_" + secrets.token_hex(4)
    await db.execute(f"create role {name}")
    yield name
    await db.execute(f"reset role; drop owned by {name}; drop role {name}")


async def rows(db: Connection) -> dict[str, int]:
    return {table: await db.fetchval(f"select count(*) from perdure.{table}") for table in TABLES}


async def test_it_is_there_with_the_apps_row(db: Connection, other: Connection) -> None:
    async with db.transaction():
        await db.execute("insert into booking values ('a', 'pending')")
        assert await db.fetchval(START, "booking", "a") == "started"
        assert await rows(other) == dict.fromkeys(TABLES, 0)
    assert await rows(other) == dict.fromkeys(TABLES, 1)


async def test_nothing_is_left_of_one_that_is_rolled_back(db: Connection) -> None:
    transaction = db.transaction()
    await transaction.start()
    await db.execute(START, "booking", "a")
    await transaction.rollback()
    assert await rows(db) == dict.fromkeys(TABLES, 0)
    assert await db.fetchval(START, "booking", "a") == "started"


async def test_a_second_start_changes_nothing_and_says_what_stands(db: Connection) -> None:
    assert await db.fetchval(START, "booking", "a") == "started"
    assert await db.fetchval(START, "booking", "a") == "open"
    await db.execute("update perdure.ident set final = 'done'")
    assert await db.fetchval(START, "booking", "a") == "finished"
    assert await rows(db) == dict.fromkeys(TABLES, 1)


@pytest.mark.parametrize(("end", "answer"), [("commit", "open"), ("rollback", "started")])
async def test_a_start_beside_an_uncommitted_one_waits_for_its_end(
    db: Connection, other: Connection, dsn: str, end: str, answer: str
) -> None:
    await db.execute("begin")
    await db.execute(START, "booking", "a")
    second = asyncio.create_task(other.fetchval(START, "booking", "a"))
    await until(lambda: _somebody_waits(db), "the second waits")
    assert not second.done()
    await db.execute(end)
    assert await second == answer
    assert await rows(db) == dict.fromkeys(TABLES, 1)


async def _somebody_waits(db: Connection) -> bool:
    return bool(await db.fetchval("select exists (select from pg_locks where not granted)"))


async def test_of_many_starts_at_once_one_starts(dsn: str, db: Connection) -> None:
    async with asyncpg.create_pool(dsn, min_size=20, max_size=20) as pool:
        answers = await asyncio.gather(*(pool.fetchval(START, "booking", "a") for _ in range(40)))
    assert sorted(answers) == ["open"] * 39 + ["started"]
    assert await rows(db) == dict.fromkeys(TABLES, 1)


@pytest.mark.parametrize("name", BAD_NAMES.values(), ids=BAD_NAMES)
async def test_a_name_that_can_be_no_lifecycle_is_refused_in_the_apps_transaction(
    db: Connection, name: str | None
) -> None:
    refusal = await _refused(db, name, "a")
    assert (f"'{name}'" if name is not None else "null") in str(refusal)
    assert "workflow.defn" in str(refusal.hint)
    assert not await db.fetchval("select exists (select from booking)")


@pytest.mark.parametrize("entity_id", BAD_IDS.values(), ids=BAD_IDS)
async def test_an_id_that_can_be_no_entity_is_refused_in_the_apps_transaction(
    db: Connection, entity_id: str | None
) -> None:
    refusal = await _refused(db, "booking", entity_id)
    assert (f"'{UNSEEN.sub(chr(0xFFFD), entity_id[:60])}'" if entity_id is not None else "null") in str(refusal)
    assert "1 to 900" in str(refusal.hint)
    assert await rows(db) == dict.fromkeys(TABLES, 0)
    assert not await db.fetchval("select exists (select from booking)")


async def _refused(db: Connection, lifecycle: str | None, entity_id: str | None) -> asyncpg.InvalidParameterValueError:
    await db.execute("begin; insert into booking values ('a', 'pending')")
    with pytest.raises(asyncpg.InvalidParameterValueError) as refusal:
        await db.execute(START, lifecycle, entity_id)
    await db.execute("commit")  # PostgreSQL makes a rollback of it
    return refusal.value


async def test_the_longest_id_and_one_of_many_scripts_are_taken(db: Connection) -> None:
    for entity_id in ("x" * 900, "Грусть-42", 'it\'s "1"; drop table booking'):
        assert await db.fetchval(START, "booking", entity_id) == "started"


async def test_a_stranger_can_do_nothing(db: Connection, stranger: str) -> None:
    assert not await db.fetchval("select has_schema_privilege($1, 'perdure', 'usage, create')", stranger)
    assert await _allowed(db, stranger) == []
    await db.execute(f"set role {stranger}")
    with pytest.raises(asyncpg.InsufficientPrivilegeError):
        await db.execute(START, "booking", "a")


async def test_what_a_later_migration_makes_is_closed_as_well(
    db: Connection, stranger: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = schema.migrations()
    later = schema.Migration(
        known[-1].number + 1, "later", "create function perdure.later() returns int language sql as 'select 1'"
    )
    monkeypatch.setattr(schema, "migrations", lambda: [*known, later])
    try:
        await schema.migrate(db)
        assert await _allowed(db, stranger) == []
    finally:
        await db.execute("drop function perdure.later; delete from perdure.migration where name = 'later'")


async def _allowed(db: Connection, role: str) -> list[str]:
    found = await db.fetch(
        "select oid::regprocedure::text from pg_proc "
        "where pronamespace = 'perdure'::regnamespace and has_function_privilege($1, oid, 'execute') "
        "union all select oid::regclass::text from pg_class where relnamespace = 'perdure'::regnamespace "
        "and relkind in ('r', 'p') and has_table_privilege($1, oid, 'select, insert, update, delete')",
        role,
    )
    return [row[0] for row in found]


async def test_a_role_that_may_start_may_do_nothing_else(db: Connection, stranger: str) -> None:
    await db.execute(f"grant usage on schema perdure to {stranger}")
    await db.execute(f"grant execute on function perdure.start, perdure.start_any to {stranger}")
    await db.execute(f"set role {stranger}")
    assert await db.fetchval(START, "booking", "a") == "started"
    for statement in ("select from perdure.entity", "delete from perdure.ident", "select perdure.apply_writes('[]')"):
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            await db.execute(statement)
