"""A Temporal namespace for each database of development, and recovery where Temporal was started anew.

A database that was made anew has no namespace on record, so it gets a new one: nothing of the old database's workflows
is in its way. Two projects on one Temporal server have two namespaces.
"""

from __future__ import annotations

import asyncio
import secrets
from datetime import timedelta

from temporalio.client import Client

from perdure import database
from perdure._dev.servers import Report
from perdure._reconcile.recovery.recovery import recover
from perdure._reconcile.recovery.temporal import rebind, why_lost
from perdure._services.ownership.exchange import Exchange
from perdure._store.postgres import Database
from perdure._store.sql import queries
from perdure._worker.namespace import make_namespace
from perdure._worker.plugin import PerdurePlugin
from perdure._worker.worker import connect
from perdure.app import App
from perdure.errors import NotNow, NotThisDatabase
from perdure.settings import Settings

query = queries(__name__)

PREFIX = "dev-"
"""Of the namespaces of development: a database that works with another one is none of development."""
_RETENTION = timedelta(days=3)
_BY = "perdure dev"


async def namespace_of(config: Settings) -> str:
    """The namespace that this database works with, or a new one. The schema of a database of development is migrated.

    Raises:
        DatabaseUnavailable, InvalidSetting: it can't be reached, or its URL can't be read.
        NotThisDatabase: the database works with a namespace that is not one of development.
    """
    reachable = Database(config.database_url)
    await reachable.open()
    await reachable.close()
    async with database.open_pool(config, _BY, command_timeout=60) as pool, pool.acquire() as connection:
        namespace = await _known(connection)
        if not namespace.startswith(PREFIX):
            raise NotThisDatabase(
                f"this database works with the namespace {namespace!r} of Temporal, so it is not "
                "one of development: name another database by PERDURE_DATABASE_URL, or unset it"
            )
        await database.migrate(connection)
    return namespace


async def _known(connection: database.Connection) -> str:
    """The namespace on record, whatever release made the schema; a new name if there is none."""
    known = None
    if await connection.fetchval("select to_regclass('perdure.database')") is not None:
        known = await connection.fetchval(query("known_namespace"))
    return PREFIX + secrets.token_hex(4) if known is None else str(known)


async def register(address: str, namespace: str) -> None:
    """Make sure that Temporal has the namespace."""
    await make_namespace(await Client.connect(address, namespace=namespace), _RETENTION)


async def recover_where_lost(config: Settings, report: Report) -> None:
    """If this Temporal has lost what is open in the database, let all of it go on from the database."""
    async with database.open_pool(config, _BY, command_timeout=60) as pool:
        client = await connect(PerdurePlugin(App([], []), config))
        exchange = Exchange(client, config)
        async with pool.acquire() as connection:
            why = await _why_lost(connection, exchange, report)
            if why is None:
                return
            await rebind(connection, exchange, report)
        seen = await recover(pool, client, config.scope, by=_BY, why=f"recovered: {why}")
        report(f"Temporal was started anew: {seen.started} open lifecycles go on from the database")


async def _why_lost(connection: database.Connection, exchange: Exchange, report: Report) -> str | None:
    reported = False
    while True:
        try:
            return await why_lost(connection, exchange)
        except NotNow:  # the Temporal that is lost answered a few seconds ago
            if not reported:
                report("This is another Temporal than a few seconds ago; waiting 15 s to make sure")
            reported = True
            await asyncio.sleep(0.5)
