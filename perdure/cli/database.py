"""What the commands share: one connection to the app's database, for as long as one command lasts."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Literal

import asyncpg

from perdure._store import schema
from perdure._store.bounds import bounds
from perdure._store.postgres import Database, Pool, answering
from perdure._store.schema import Connection
from perdure.errors import DatabaseUnavailable, NotPermitted
from perdure.settings import settings

PATIENCE = bounds(lock="15s", statement="60s")
"""For a person, who waits longer than a worker does: a relay may hold an entity for as long as a call to Temporal."""


@asynccontextmanager
async def opened() -> AsyncIterator[Pool]:
    """Connections to the database that PERDURE_DATABASE_URL names, for what takes longer than a transaction.

    Raises:
        DatabaseUnavailable: no PostgreSQL answers.
        SchemaMismatch: its schema is missing, too old or too new.
        NotPermitted: this role may not use it.
    """
    async with _connections() as pool:
        with answering(), _permitted("operator"):
            async with pool.acquire() as connection:
                await schema.check(connection)
        yield pool


@asynccontextmanager
async def transaction(*, reads: bool = False) -> AsyncIterator[Connection]:
    """A transaction in the database that PERDURE_DATABASE_URL names.

    Args:
        reads: it changes nothing, and all that it reads is of one moment.

    Raises:
        DatabaseUnavailable: no PostgreSQL answers, or what it reads stays locked.
        SchemaMismatch: its schema is missing, too old or too new.
    """
    isolation: Literal["repeatable_read"] | None = "repeatable_read" if reads else None
    async with _connections(closed_path=True) as pool:
        with answering(), _unlocked():
            async with pool.acquire() as connection, connection.transaction(isolation=isolation, readonly=reads):
                await schema.check(connection)
                await connection.execute(PATIENCE)
                yield connection


@asynccontextmanager
async def reading() -> AsyncIterator[Connection]:
    """A transaction for what only reads.

    Raises:
        DatabaseUnavailable, SchemaMismatch: see `transaction`.
        NotPermitted: this role may not read the tables.
    """
    with _permitted("reader"):
        async with transaction(reads=True) as connection:
            yield connection


@contextmanager
def _permitted(kind: str) -> Iterator[None]:
    try:
        yield
    except asyncpg.InsufficientPrivilegeError as error:
        raise NotPermitted(f"{error}: an owner of the schema runs `perdure grant ROLE --as {kind}`") from error


@contextmanager
def _unlocked() -> Iterator[None]:
    try:
        yield
    except asyncpg.LockNotAvailableError as error:
        raise DatabaseUnavailable(
            "another transaction has held a lock on what this reads for 15 s, such as a migration or `lock table`: "
            "wait for its end, or find it as `perdure help alert-PerdureBlind` shows"
        ) from error


@asynccontextmanager
async def _connections(*, closed_path: bool = False) -> AsyncIterator[Pool]:
    database = Database(settings().database_url, most=2, closed_path=closed_path)
    pool = await database.open()
    try:
        yield pool
    finally:
        await database.close()
