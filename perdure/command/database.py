"""What the commands share: one connection to the app's database, for as long as one command lasts."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from perdure import schema
from perdure.schema import Connection
from perdure.settings import settings
from perdure.store.postgres import Database, answering

PATIENCE = "set local lock_timeout = '15s'; set local statement_timeout = '60s'"
"""For a person, who waits longer than a worker does: a relay may hold an entity for as long as a call to Temporal."""


@asynccontextmanager
async def transaction() -> AsyncIterator[Connection]:
    """A transaction in the database that PERDURE_DATABASE_URL names.

    Raises:
        DatabaseUnavailable: no PostgreSQL answers.
        SchemaMismatch: its schema is missing, too old or too new.
    """
    database = Database(settings().database_url, most=2)
    pool = await database.open()
    try:
        with answering():
            async with pool.acquire() as connection, connection.transaction():
                await schema.check(connection)
                await connection.execute(PATIENCE)
                yield connection
    finally:
        await database.close()
