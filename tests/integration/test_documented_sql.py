"""The SQL in the pages runs on a migrated database as an operator would type it."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from pathlib import Path

import asyncpg
import pytest

from perdure.servers.postgres import PostgresServer

DOCS = Path(__file__).parents[2] / "docs"
BLOCKS = [
    (f"{page.stem}:{page.read_text()[: block.start()].count(chr(10)) + 1}", block[1])
    for page in sorted(DOCS.glob("*.md"))
    for block in re.finditer(r"^```sql\n(.*?)^```$", page.read_text(), re.MULTILINE | re.DOTALL)
]
ROWS = """
    create role shop_app;
    create role clinic_app;
    create role shop_worker;
    create role shop_relay;
    create role shop_operator;
    select perdure.start('comment-notification', '42', '{"id": "not a number"}');
    select perdure.start('shipment', '42', '{}');
    delete from perdure.outbox;
    insert into perdure.rejected (seq, lifecycle, id, generation, kind, body, reason)
        values (1, 'comment-notification', '42', 0, 'start', '{}', 'the input does not fit');
"""
TABLES = [
    DOCS.parent / file
    for file in ("infra/mailings.sql", "activities/web_jobs/tables.sql", "activities/reminders/tables.sql")
]
JOB_TYPES = """
    insert into web_job.type (name, url, children) values
        ('send-invoice', 'http://127.0.0.1:8087/invoices', '{send-invoice}'),
        ('old-billing', 'https://old/dobillingstuff{?rowid}', '{}');
"""
A_REFUSED_CHILD = """
    insert into web_job.job (id, type) values ('month-11', 'send-invoice');
    insert into web_job.family (master, window_size, tolerates, listed, refused) values ('month-11', 50, 0, 1, 1);
    insert into web_job.refused_child (master, id, page, child, why)
        values ('month-11', '7', 0, '{"id": "7", "type": "send-invoice"}', 'another job has that id');
"""
A_SHOP = """
    create schema shop;
    create table shop.till (name text primary key, open boolean not null);
    create function shop.close_till(name text) returns void language sql as
        $$ update shop.till t set open = false where t.name = $1 $$;
"""
A_DOUBT_THAT_OUTLIVED_ITS_ENTITY = """
    update perdure.ident set final = 'cancelled';
    insert into perdure.effect
        (key, lifecycle, id, generation, effect, token, status, digest, first_at, attempt_at, deadline)
        values ('k', 'comment-notification', '42', 0, 'send-mail', 't', 'in_doubt', 'd', now(), now(), now());
"""


@pytest.fixture
async def connection(postgres: PostgresServer, database: str) -> AsyncIterator[asyncpg.Connection[asyncpg.Record]]:
    """A connection in a transaction that is rolled back, on a database with one entity."""
    connection = await asyncpg.connect(postgres.dsn(database))
    transaction = connection.transaction()
    await transaction.start()
    await connection.execute(ROWS)
    for file in TABLES:
        await connection.execute(file.read_text())
    await connection.execute(JOB_TYPES)
    yield connection
    await transaction.rollback()
    await connection.close()


@pytest.mark.parametrize("sql", [sql for _, sql in BLOCKS], ids=[name for name, _ in BLOCKS])
async def test_each_block_of_sql_runs(connection: asyncpg.Connection[asyncpg.Record], database: str, sql: str) -> None:
    if "perdure.resolve" in sql:
        await connection.execute(A_DOUBT_THAT_OUTLIVED_ITS_ENTITY)
    if "web_job.list_child" in sql:
        await connection.execute(A_REFUSED_CHILD)
    if "shop.till" in sql:
        await connection.execute(A_SHOP)
    here = sql.replace("on database shop ", f"on database {database} ")
    await connection.execute(re.sub(r"^(begin|commit);$", "", here, flags=re.MULTILINE))


async def test_a_retried_rejected_row_waits_for_delivery_again(connection: asyncpg.Connection[asyncpg.Record]) -> None:
    [repair] = [sql for _, sql in BLOCKS if "perdure.retry_rejected" in sql]
    await connection.execute(re.sub(r"^(begin|commit);$", "", repair, flags=re.MULTILINE))
    waits = await connection.fetch("select lifecycle, id, generation, kind from perdure.outbox")
    assert [tuple(row) for row in waits] == [("comment-notification", "42", 0, "start")]
    assert await connection.fetchval("select count(*) from perdure.rejected") == 0
    assert (
        await connection.fetchval("select input ->> 'id' from perdure.entity where attention is null and input <> '{}'")
        == "42"
    )
