"""The checks of every process of the fleet before it begins, on a connection of its own."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable

import asyncpg

from perdure._store import schema
from perdure._store.connecting import report_weaknesses
from perdure._store.postgres import answering
from perdure._store.schema import Connection
from perdure._store.schema.kinds import Kind
from perdure._store.schema.rights import check_role
from perdure._text.privacy import describe
from perdure.errors import DatabaseUnavailable
from perdure.logs import log_event

log = logging.getLogger("perdure.store")

# A connection that is dropped because no answer came ends the transaction that was open by an InterfaceError.
_BUSY = (asyncpg.QueryCanceledError, asyncpg.LockNotAvailableError, asyncpg.InterfaceError, TimeoutError)
_READ_ONLY = (asyncpg.ReadOnlySQLTransactionError,)
_PATIENCE = 30.0
_SUPERUSER = "select rolsuper from pg_catalog.pg_roles where rolname = current_user"


async def patiently(checks: Callable[[], Awaitable[None]]) -> None:
    """Repeat the checks of a start while PostgreSQL is too busy for their statements, or somebody holds its tables.

    Raises:
        DatabaseUnavailable: for half a minute; or at once, because PostgreSQL takes no writes.
    """
    end = time.monotonic() + _PATIENCE
    while True:
        try:
            with answering(_READ_ONLY):
                return await checks()
        except _BUSY as error:
            if time.monotonic() > end:
                why = f"PostgreSQL did not answer: {describe(error)}; start again when it does"
                raise DatabaseUnavailable(why) from error
        await asyncio.sleep(0.2)


async def prepare(connection: Connection, kind: Kind) -> None:
    """Check role, schema and server, make the months to come, and note for the feed which database this is.

    Raises:
        PerdureError: the role lacks a right, or the schema is missing, older or too new. The message names the way
            out.
    """
    await check_role(connection, kind)
    await schema.check(connection)
    await report_weaknesses(connection)
    if await connection.fetchval(_SUPERUSER):
        what = "this role is a superuser, so whoever takes it over has the whole server: perdure grant ROLE --as "
        log_event(log, f"{what}{kind}", level=logging.WARNING)
    await schema.make_months(connection)
    await schema.note_database(connection)
