"""What the commands share: one connection to the app's database, for as long as one command lasts."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Literal

import asyncpg

from perdure._operations.connecting import PRIMARY, is_standby
from perdure._store import schema
from perdure._store.bounds import bounds
from perdure._store.connecting import STATEMENT_ERRORS
from perdure._store.postgres import Database, Pool, answering
from perdure._store.schema import Connection
from perdure._store.schema.kinds import Kind
from perdure._store.schema.rights import OWNER, permitting
from perdure.errors import DatabaseUnavailable, NoSuchEntity
from perdure.settings import settings

PATIENCE = bounds(lock="15s", statement="60s")
"""For a person, who waits longer than a worker does: a relay may hold an entity for as long as a call to Temporal."""


@asynccontextmanager
async def opened(*kinds: Kind) -> AsyncIterator[Pool]:
    """Connections to the database that PERDURE_DATABASE_URL names, for what takes longer than a transaction.

    Args:
        kinds: of roles that may do it; none = only the owner of the schema may.

    Raises:
        DatabaseUnavailable: no PostgreSQL answers, or it takes no writes.
        SchemaMismatch: its schema is missing, too old or too new.
        NotPermitted: this role may not do it.
    """
    async with _connections() as pool:
        with answering():
            async with permitting(pool, *kinds), pool.acquire() as connection:
                await schema.check(connection)
        with answering(STATEMENT_ERRORS):  # what it prints may be refused by the system
            async with permitting(pool, *kinds):
                yield pool


@asynccontextmanager
async def transaction() -> AsyncIterator[Connection]:
    """A transaction of the schema's owner in the database that PERDURE_DATABASE_URL names.

    Raises:
        DatabaseUnavailable: no PostgreSQL answers, it takes no writes, or what it reads stays locked.
        SchemaMismatch: its schema is missing, too old or too new.
        NotPermitted: this role is not the owner.
    """
    async with begun(reads=False) as connection:
        yield connection


@asynccontextmanager
async def reading() -> AsyncIterator[Connection]:
    """A transaction that changes nothing, and in which all that it reads is of one moment.

    Raises:
        DatabaseUnavailable, SchemaMismatch: see `transaction`.
        NoSuchEntity: the reader found none. The error names a standby, which may not have received it.
        NotPermitted: this role may not read the tables.
    """
    async with begun(Kind.READER, reads=True) as connection:
        try:
            yield connection
        except NoSuchEntity as error:
            if await is_standby(connection):
                raise NoSuchEntity(f"{error}; or this standby has not received it yet: {PRIMARY}") from error
            raise


@asynccontextmanager
async def begun(*kinds: Kind, reads: bool, way_out: str = OWNER) -> AsyncIterator[Connection]:
    """A transaction in the database that PERDURE_DATABASE_URL names; see `transaction` and `reading`.

    Args:
        kinds: of roles that may do it.
        reads: whether it changes nothing.
        way_out: for a role that may not do it, if there is no such kind.
    """
    isolation: Literal["repeatable_read"] | None = "repeatable_read" if reads else None
    async with _connections(closed_path=True) as pool:
        with answering(), _unlocked():
            async with (
                permitting(pool, *kinds, way_out=way_out),
                pool.acquire() as connection,
                connection.transaction(isolation=isolation, readonly=reads),
            ):
                await schema.check(connection)
                await connection.execute(PATIENCE)
                yield connection


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
