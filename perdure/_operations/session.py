"""The connections of somebody who acts: to the app's database, and where a workflow is asked, to its Temporal."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from datetime import timedelta

from perdure._operations.acts import Acts
from perdure._operations.again import Workflows
from perdure._operations.connecting import check_binding, check_no_copy, check_primary, read_binding
from perdure._services.ownership.exchange import Exchange
from perdure._store import schema
from perdure._store.bounds import bounds
from perdure._store.postgres import Database, Pool, answering
from perdure._store.schema import Connection
from perdure._store.schema.kinds import Kind
from perdure._store.schema.rights import granted, permitting
from perdure._wire.requests import OperatorRequest
from perdure._worker.plugin import PerdurePlugin
from perdure._worker.worker import connect
from perdure.app import App
from perdure.client.client import Client
from perdure.errors import NotPermitted, TemporalUnavailable
from perdure.settings import Settings

_READING = bounds(lock="15s", statement="60s")


@dataclass(frozen=True, slots=True)
class Session:
    """What one command works with; from `session`."""

    config: Settings
    pool: Pool
    app: App | None
    asked: OperatorRequest
    patience: timedelta

    @property
    def client(self) -> Client:
        """Without Temporal."""
        return Client(self.pool, config=self.config, app=self.app)

    @asynccontextmanager
    async def reading(self) -> AsyncIterator[Connection]:
        """A short transaction, with a person's patience."""
        async with self._transaction(readonly=True) as connection:
            yield connection

    @asynccontextmanager
    async def writing(self) -> AsyncIterator[Connection]:
        """A short transaction that may write, with a person's patience."""
        async with self._transaction(readonly=False) as connection:
            yield connection

    @asynccontextmanager
    async def _transaction(self, *, readonly: bool) -> AsyncIterator[Connection]:
        with answering():
            async with (
                permitting(self.pool, Kind.OPERATOR),
                self.pool.acquire() as connection,
                connection.transaction(readonly=readonly),
            ):
                await connection.execute(_READING)
                yield connection

    async def acts(self, *, asks_temporal: bool) -> Acts:
        """The acts.

        Raises:
            TemporalUnavailable: no Temporal server answers.
            NotThisDatabase: it is not the one that this database works with, or the database is a copy, or was moved.
        """
        if not asks_temporal:
            async with self.reading() as connection:
                check_no_copy(await connection.fetchval("select perdure.database_problem()"))
            return Acts(self.client, self.pool, None, self.app, self.asked)
        connected = await connect(PerdurePlugin(self.app or App([], []), self.config))
        async with self.reading() as connection:
            binding = await read_binding(connection)
        await check_binding(connected, self.config, binding)
        with suppress(TemporalUnavailable):  # no worker answers: an act that needs one says so
            await Exchange(connected, self.config).check_holder(binding)
        client = Client(self.pool, connected, config=self.config, app=self.app, patience=self.patience)
        return Acts(client, self.pool, Workflows(connected, self.config.scope), self.app, self.asked)


@asynccontextmanager
async def session(config: Settings, app: App | None, asked: OperatorRequest, patience: float) -> AsyncIterator[Session]:
    """Connect to the app's database, for as long as one command lasts.

    Args:
        patience: seconds that a workflow's answer is waited for.

    Raises:
        DatabaseUnavailable: no PostgreSQL answers, or it is a standby.
        SchemaMismatch: its schema is missing, too old or too new.
        NotPermitted: this role could act, and not write down who did.
    """
    database = Database(config.database_url, most=config.connections, closed_path=True)
    pool = await database.open()
    try:
        with answering():
            async with permitting(pool, Kind.OPERATOR):
                async with pool.acquire() as connection:
                    await schema.check(connection)
                    await check_rights(connection)
                yield Session(config, pool, app, asked, timedelta(seconds=patience))
    finally:
        await database.close()


async def check_rights(connection: Connection) -> None:
    """Make sure of what every act needs: whoever acts must be able to write down that they did.

    Raises:
        DatabaseUnavailable: the server is a standby.
        NotPermitted: this role is not able to.
    """
    await check_primary(connection)
    may = "select has_function_privilege('perdure.note(text, text, text, text)', 'execute')"
    if not await connection.fetchval(may):
        role = await connection.fetchval("select current_user")
        raise NotPermitted(f"the role {role!r} may not act: {await granted(connection, Kind.OPERATOR)}")
