"""Finds the statements of an app from which row-level security hides rows. PostgreSQL runs them without an error."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import asyncpg

from perdure._store.schema import Connection
from perdure._store.sql import queries

query = queries(__name__)

SEE_ALL = "Give that role BYPASSRLS, or a policy USING (true) for all commands, which no other policy restricts"
"""The way out for a role from which rows may be hidden."""


async def hidden_rows(db: Connection, sql: str) -> str | None:
    """The tables of a statement from which this role may not see each row, as a clause; None if there are none. Call it
    in a transaction. It runs nothing, so it does not know the tables that functions and triggers use.

    Raises:
        asyncpg.PostgresError: PostgreSQL cannot run the statement.
    """
    if await _has_no_policies(db, sql):
        return None
    async with _undone(db):
        await db.execute(f"explain {sql}")  # locks the tables
        tables = [row["name"] for row in await db.fetch(query("tables_with_hidden_rows"))]
    if not tables:
        return None
    role = await db.fetchval("select quote_ident(current_user)")
    return f"row-level security of {', '.join(tables)} may hide rows from the role {role}"


async def _has_no_policies(db: Connection, sql: str) -> bool:
    """PostgreSQL knows whose rights hold for each table, also below views."""
    try:
        async with _undone(db):
            await db.execute("set local row_security = off")  # refuses in place of hiding
            await db.execute(f"explain {sql}")
    except asyncpg.InsufficientPrivilegeError:
        return False
    return True


@asynccontextmanager
async def _undone(db: Connection) -> AsyncIterator[None]:
    part = db.transaction()
    await part.start()
    try:
        yield
    finally:
        await part.rollback()
