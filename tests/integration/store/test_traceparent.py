"""The migration that gives `perdure.start` a parameter: nobody's rights are lost."""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator

import asyncpg
import pytest

from infra.postgres import PostgresServer
from perdure._store import schema
from tests.integration.store.store_ground import Connection, run_on

RIGHTS = """
    select p.proname::text, coalesce(r.rolname, 'public')::text, a.is_grantable
    from pg_proc p, aclexplode(p.proacl) a left join pg_roles r on r.oid = a.grantee
    where p.pronamespace = 'perdure'::regnamespace and a.grantee <> p.proowner order by 1, 2
"""


@pytest.fixture
async def before(postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Connection]:
    """A database with the schema as it was before, in which two roles may start and a third may not."""
    name = "before_" + secrets.token_hex(4)
    roles = [f"{name}_{each}" for each in ("app", "chief", "guest")]
    await run_on(postgres.dsn(), f"create database {name}")
    connection = await asyncpg.connect(postgres.dsn(name))
    known = schema.migrations()
    with monkeypatch.context() as earlier:
        earlier.setattr(schema, "migrations", lambda: known[:3])
        await schema.migrate(connection)
    for role in roles:
        await connection.execute(f"create role {role}; grant usage on schema perdure to {role}")
    await connection.execute(f"grant execute on function perdure.start to {roles[0]}")
    await connection.execute(f"grant execute on function perdure.restart to {roles[1]} with grant option")
    yield connection
    await connection.close()
    await run_on(postgres.dsn(), f"drop database {name} with (force)")
    for role in roles:
        await run_on(postgres.dsn(), f"drop role {role}")


async def rights(db: Connection) -> list[tuple[str, str, bool]]:
    """Who may execute what, but for the owner."""
    rows = await db.fetch(RIGHTS)
    return [(row[0], row[1].rpartition("_")[2], row[2]) for row in rows]


async def test_who_could_start_before_the_migration_can_start_after_it_and_nobody_else(before: Connection) -> None:
    expected = [("restart", "chief", True), ("start", "app", False)]
    assert await rights(before) == expected
    assert (await schema.migrate(before))[0].number == 4
    # And ask which schema there is: a client of theirs does when it connects.
    more = [("schema_version", "app", False), ("restart_any", "chief", True), ("start_any", "app", False)]
    assert await rights(before) == sorted([*expected, *more])
