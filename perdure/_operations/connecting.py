"""A connection to Temporal for commands that only read: without it, they show the rest and report its absence. And
whether it is the Temporal, and the scope, that the database works with, and whether PostgreSQL is a standby."""

from __future__ import annotations

import asyncio
import logging
from contextlib import AbstractAsyncContextManager

import asyncpg
from temporalio.client import Client
from temporalio.service import RPCError

from perdure._services.credentials import Renewal
from perdure._services.ownership.exchange import CLAIM, Exchange
from perdure._services.ownership.ownership import is_stopped
from perdure._store.schema import Connection
from perdure._store.sql import shared
from perdure._worker.plugin import PerdurePlugin
from perdure._worker.worker import connect_renewed
from perdure.app import App
from perdure.errors import DatabaseUnavailable, NotThisDatabase, PerdureError, TemporalUnavailable
from perdure.logs import long_wait
from perdure.settings import Settings

log = logging.getLogger("perdure.operations")

PATIENCE = 5.0
"""Seconds until it counts as away."""
PRIMARY = "set PERDURE_DATABASE_URL to the primary"


async def temporal_client(config: Settings, app: App | None = None) -> Client | TemporalUnavailable:
    """A client of the server that TEMPORAL_* names; or why there is none."""
    with long_wait(log, "waits for Temporal"):
        found = await renewed_client(config, app)
    return found if isinstance(found, TemporalUnavailable) else found[0]


async def renewed_client(config: Settings, app: App | None = None) -> tuple[Client, Renewal] | TemporalUnavailable:
    """The same for a process that goes on: the service connects the client anew when its certificates change, once it
    is started."""
    try:
        return await asyncio.wait_for(connect_renewed(PerdurePlugin(app or App([], []), config)), PATIENCE)
    except TemporalUnavailable as error:
        return error
    except TimeoutError:
        return TemporalUnavailable(f"no Temporal server answered within {PATIENCE:g} s: set TEMPORAL_ADDRESS")


async def is_standby(connection: Connection) -> bool:
    """Whether the server is a standby, which may not have received the newest commits."""
    return bool(await connection.fetchval("select pg_is_in_recovery()"))


async def check_primary(connection: Connection) -> None:
    """Make sure that the server is not a standby.

    Raises:
        DatabaseUnavailable: it is one.
    """
    if await is_standby(connection):
        raise DatabaseUnavailable(f"PostgreSQL is a standby, which takes no writes and may be behind: {PRIMARY}")


async def read_binding(connection: Connection) -> asyncpg.Record:
    """What the database works with, for `check_binding`.

    Raises:
        NotThisDatabase: a dump is being restored over it.
    """
    found = await connection.fetchrow(shared("database"))
    if found is None:
        raise NotThisDatabase(f"a dump is being restored over this database, so it has no mark: {CLAIM}")
    return found


def check_no_copy(problem: str | None) -> None:
    """Raise if workers do not work with this database, because it is a copy that nobody has claimed.

    Args:
        problem: the result of `perdure.database_problem`.

    Raises:
        NotThisDatabase: it is one.
    """
    if is_stopped(problem):
        raise NotThisDatabase(f"nothing is sent from this database: {problem}: {CLAIM}")


async def check_binding(client: Client, config: Settings, binding: asyncpg.Record) -> None:
    """Raise unless this Temporal and this scope are those that the database works with, or it has none yet.

    Raises:
        NotThisDatabase: they are another database's, or the database is a copy.
        TemporalUnavailable: Temporal gave no answer.
    """
    try:
        await Exchange(client, config).check_binding(binding)
    except RPCError as error:
        raise TemporalUnavailable(f"no answer from Temporal: {error}") from error
    check_no_copy(binding["problem"])


async def why_not_compared(
    reading: AbstractAsyncContextManager[Connection], client: Client, config: Settings
) -> str | None:
    """Make sure that this Temporal and this scope are the database's own. Returns why that is not known, for what may
    be done while PostgreSQL is away.

    Raises:
        NotThisDatabase: they are another database's.
    """
    try:
        async with reading as connection:
            binding = await read_binding(connection)
        await check_binding(client, config, binding)
    except NotThisDatabase:
        raise
    except PerdureError as error:
        return str(error)
    return None


async def bound(
    client: Client | TemporalUnavailable, config: Settings, binding: asyncpg.Record
) -> Client | PerdureError:
    """The client; or why it shows nothing of this database."""
    if isinstance(client, TemporalUnavailable):
        return client
    try:
        await check_binding(client, config, binding)
    except PerdureError as error:
        return error
    return client
