"""The SQL of the runbook can be pasted: it runs on a migrated database, and the query of a finding shows it."""

from __future__ import annotations

import asyncio
import re
import secrets
from pathlib import Path

import asyncpg
import pytest

from perdure import database as schema
from perdure._store.finding_kinds import KINDS
from perdure.servers.postgres import PostgresServer
from tests.deadline import in_time, until

FOLDER = Path(__file__).parents[2] / "docs" / "runbook"
BLOCKS = {
    page.stem: re.findall(r"^```sql\n(.*?)^```$", page.read_text(), re.MULTILINE | re.DOTALL)
    for page in sorted(FOLDER.glob("*.md"))
}


async def test_each_line_of_sql_runs_and_shows_the_finding_that_its_page_is_about(
    postgres: PostgresServer, database: str
) -> None:
    db = await asyncpg.connect(postgres.dsn(database))
    for kind in KINDS:
        await db.execute("insert into perdure.finding (kind, what, run) values ($1, 'x', 1)", kind.name)
    for page, blocks in BLOCKS.items():
        for statement in filter(str.strip, "".join(blocks).split(";\n")):
            try:
                rows = await db.fetch(statement)
            except asyncpg.PostgresError as error:
                pytest.fail(f"{page}: {statement}\n{error}")
            if "perdure.finding where kind = " in statement and statement.startswith("select lifecycle"):
                assert len(rows) == 1, page
    await db.close()
    assert sum(map(len, BLOCKS.values())) > 15


async def test_the_query_of_blind_shows_a_session_that_waits_and_that_readers_wait_behind(
    postgres: PostgresServer, database: str
) -> None:
    backup, locker, db = [await asyncpg.connect(postgres.dsn(database)) for _ in range(3)]
    await backup.execute("begin; lock table perdure.entity in access share mode")
    holder, waiting = [await each.fetchval("select pg_backend_pid()") for each in (backup, locker)]
    locking = asyncio.create_task(locker.execute("begin; lock table perdure.entity; rollback"))
    query = BLOCKS["alert-PerdureBlind"][0].split(";\n")[1]
    [seen] = await until(lambda: db.fetch(query), "the lock is waited for")
    assert (seen["pid"], seen["granted"], seen["waits_for"]) == (waiting, False, [holder])
    await backup.execute("rollback")
    await in_time(locking)
    for each in (backup, locker, db):
        await each.close()


SEALED = """
    select perdure.start('order', '1', '{"a": "perdure-sealed:2:OLD-KEY-ID:x"}');
    insert into perdure.effect
        (key, lifecycle, id, generation, effect, token, status, digest, first_at, attempt_at, deadline, receipt)
        values ('k', 'order', '1', 0, 'send', 't', 'done', '', now(), now(), now(), '"perdure-sealed:2:OLD-KEY-ID:x"');
    insert into perdure.carried_transition (lifecycle, id, generation, version, state, at, xid, seq, effect)
        values ('order', '1', 0, 1, 'waiting', now(), '0', 1, '{"receipt": "perdure-sealed:2:OLD-KEY-ID:x"}');
    select perdure.signal('order', '1', 'say', '"perdure-sealed:2:OLD-KEY-ID:x"');
    select perdure.signal('order', '1', 'say', '"perdure-sealed:2:another:x"')
"""


HOLD_DATA = """
    select c.relname from pg_class c
    where c.relnamespace = 'perdure'::regnamespace and c.relkind in ('r', 'p') and not c.relispartition
        and exists (select from pg_attribute a where a.attrelid = c.oid and a.attname = 'lifecycle')
        and exists (select from pg_attribute a where a.attrelid = c.oid and a.atttypid = 'jsonb'::regtype)
"""
"""Tables that may hold what an app has sealed."""


async def test_the_query_for_an_old_key_finds_what_is_sealed_in_any_table(
    postgres: PostgresServer, database: str
) -> None:
    db = await asyncpg.connect(postgres.dsn(database))
    await db.execute(SEALED)
    query = BLOCKS["incident-key"][0]
    found = [(row["place"], row["count"]) for row in await db.fetch(query)]
    names = {row["relname"] for row in await db.fetch(HOLD_DATA)}
    await db.close()
    assert found == [("carried_transition", 1), ("effect", 1), ("entity", 1), ("message", 1)]
    assert names == set(re.findall(r"from perdure\.(\w+)", query))


async def test_a_stolen_role_that_owned_everything_is_dropped_and_no_record_is_lost(postgres: PostgresServer) -> None:
    page, old = (FOLDER / "incident-role.md").read_text(), f"everything_{secrets.token_hex(4)}"
    steps = dict(re.findall(r"^(\d)\. (.*?)\n(?=\d\. |\n)", page, re.MULTILINE | re.DOTALL))
    statements = [each for step in "27" for each in re.findall(r"`((?:reassign|drop) [^`]+)`", steps[step])]
    admin = await asyncpg.connect(postgres.dsn())
    await admin.execute(f"create role {old} login; create role {old}_2")
    await admin.execute(f"create database {old} owner {old} encoding 'UTF8' template template0")
    owner = await asyncpg.connect(postgres.dsn(old).replace("postgres@", f"{old}@", 1))
    await owner.execute("create table shop_order (id text primary key); insert into shop_order values ('42')")
    await schema.migrate(owner)
    await owner.fetchval("select perdure.start('order', '42', '{}')")
    await owner.close()

    db = await asyncpg.connect(postgres.dsn(old))
    for statement in statements:
        await db.execute(statement.replace("shop_worker", old))
    assert await db.fetchval("select to_regrole($1)", old) is None
    assert await db.fetchval("select array_agg(e.id) from perdure.entity e join shop_order using (id)") == ["42"]
    await db.close()
    await admin.execute(f"drop database {old}")
    await admin.execute(f"drop role {old}_2")
    await admin.close()
