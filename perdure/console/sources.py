"""What pages read from: the app's database always, Temporal where it answers. Either may be away; the pages say so."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Generic, TypeVar

from temporalio.client import Client

from perdure._operations.connecting import renewed_client, why_not_compared
from perdure._operations.session import Session
from perdure._services.credentials import Renewal
from perdure._store import schema
from perdure._store.postgres import Database, Pool, answering
from perdure._store.schema import Connection
from perdure._store.schema.kinds import Kind
from perdure._store.schema.rights import permitting
from perdure._wire.requests import OperatorRequest
from perdure.app import App
from perdure.errors import NotThisDatabase, PerdureError, TemporalUnavailable
from perdure.settings import Settings

T = TypeVar("T")

ANSWER = timedelta(seconds=20)
"""How long an act waits for the answer of a workflow."""
_OPENING = 3.0
_CONNECTING = 1.0
_AGAIN = 5.0
"""Seconds between two attempts to reach Temporal."""
_MOST = 5_000
"""Things that are kept; of more, none is."""
_QUICK = 0.1
"""Seconds that a page waits for what it could show as it was."""
_FOR_JOBS = 2
"""Of the connections to the database, those of acts on many, where there are so many."""


@dataclass
class Seen(Generic[T]):
    """Something that was read.

    Attributes:
        at: when.
        problem: why it could not be read again since then.
    """

    value: T
    at: datetime
    problem: str | None = None


@dataclass
class _Kept:
    value: Any = None
    at: datetime | None = None
    read_at: float = float("-inf")
    reading: asyncio.Task[Any] | None = None
    error: PerdureError | None = None


@dataclass
class Sources:
    """Connections that the pages share; opened when they are first needed.

    Attributes:
        app: whose declarations say more about what is shown.
    """

    config: Settings
    app: App | None
    _databases: dict[bool, Database] = field(default_factory=dict)
    _opening: asyncio.Lock = field(default_factory=asyncio.Lock)
    _temporal: Client | PerdureError | None = None
    _connecting: asyncio.Task[Client | PerdureError] | None = None
    _renewal: Renewal | None = None
    _asked_at: float = float("-inf")
    _kept: dict[object, _Kept] = field(default_factory=dict)
    _outdated: list[_Kept] = field(default_factory=list)

    @property
    def for_pages(self) -> int:
        """Connections to the app's database at most that pages share."""
        return max(1, self.config.connections - _FOR_JOBS)

    async def pool(self, *, many: bool = False) -> Pool:
        """Connections to the app's database.

        Args:
            many: those of acts on many.

        Raises:
            DatabaseUnavailable: no PostgreSQL answers.
            SchemaMismatch: its schema is missing, too old or too new.
            NotPermitted: nothing was granted to the role of the console.
        """
        async with self._opening:
            if many not in self._databases:
                most = self.config.connections - self.for_pages if many else self.for_pages
                database = Database(self.config.database_url, most=most, closed_path=True)
                pool = await database.open(patience=_OPENING)
                try:
                    with answering():
                        async with permitting(pool, Kind.CONSOLE), pool.acquire() as connection:
                            await schema.check(connection)
                except BaseException:
                    await database.close()
                    raise
                self._databases[many] = database
            return await self._databases[many].open()

    async def session(self, by: str, note: str = "", *, many: bool = False) -> Session:
        """What acts and queries work with, in the name of a person."""
        pool = await self.pool(many=many)
        return Session(self.config, pool, self.app, OperatorRequest(by=by, note=note), ANSWER)

    @asynccontextmanager
    async def reading(self) -> AsyncIterator[Connection]:
        """A transaction that only reads.

        Raises:
            DatabaseUnavailable: no PostgreSQL answers.
            NotPermitted: the role of the console may not read the tables.
        """
        async with (await self.session("console")).reading() as connection:
            yield connection

    async def temporal(self) -> Client | PerdureError:
        """A client of Temporal, or why there is none. It waits a second at most, and tries again by itself."""
        if isinstance(self._temporal, Client):
            return self._temporal
        now = time.monotonic()
        if self._connecting is None and now - self._asked_at > _AGAIN:
            self._asked_at = now
            self._connecting = asyncio.create_task(self._connect())
            self._connecting.add_done_callback(self._connected)
        if self._connecting is not None:
            await asyncio.wait({self._connecting}, timeout=_CONNECTING)
        return self._temporal or TemporalUnavailable("Temporal has not answered yet")

    async def _connect(self) -> Client | PerdureError:
        found = await renewed_client(self.config, self.app)
        if isinstance(found, TemporalUnavailable):
            return found
        client, renewal = found
        if (problem := await self._other_database(client)) is not None:
            return problem
        self._renewal = renewal
        await renewal.start()
        return client

    async def _other_database(self, client: Client) -> NotThisDatabase | None:
        """Why this Temporal, or this scope, shows another database's workflows; None if that can't be known now."""
        try:
            await why_not_compared(self.reading(), client, self.config)
        except NotThisDatabase as error:
            return error
        return None

    def _connected(self, done: asyncio.Task[Client | PerdureError]) -> None:
        self._connecting = None
        if done.cancelled():
            return
        error = done.exception()
        self._temporal = TemporalUnavailable(str(error)) if error else done.result()

    async def kept(
        self, key: object, read: Callable[[], Awaitable[T]], *, fresh: float, stale: float = 10.0
    ) -> Seen[T]:
        """What `read` gave: at most `fresh` seconds ago, or while it reads again, at most `stale` seconds ago.

        Many open pages, or a slow query, so cost what one page costs. What can't be read again is shown as it was, with
        the reason.

        Raises:
            PerdureError: it could never be read.
        """
        kept = self._kept.setdefault(key, _Kept())
        if len(self._kept) > _MOST:
            self.outdate()
            self._kept[key] = kept
        age = time.monotonic() - kept.read_at
        if age > fresh and kept.reading is None:
            kept.reading = asyncio.create_task(self._read(kept, read))
        if kept.reading is not None and age > stale:
            await asyncio.shield(kept.reading)
        elif kept.reading is not None:
            await asyncio.wait({kept.reading}, timeout=_QUICK)
        if kept.at is None:
            assert kept.error is not None
            raise kept.error
        return Seen(kept.value, kept.at, None if kept.error is None else str(kept.error))

    def outdate(self) -> None:
        """Let every page read anew, because an act has changed what was kept."""
        self._outdated = [each for each in (*self._outdated, *self._kept.values()) if each.reading is not None]
        self._kept = {}

    async def _read(self, kept: _Kept, read: Callable[[], Awaitable[Any]]) -> None:
        try:
            kept.value, kept.error = await read(), None
            kept.at, kept.read_at = datetime.now(UTC), time.monotonic()
        except PerdureError as error:
            kept.error = error
        finally:
            kept.reading = None

    async def close(self) -> None:
        """Close what was opened."""
        tasks = [each.reading for each in (*self._kept.values(), *self._outdated) if each.reading] + [self._connecting]
        for task in tasks:
            if task is not None:
                task.cancel()
                with suppress(asyncio.CancelledError, PerdureError):
                    await task
        if self._renewal is not None:
            await self._renewal.stop()
        databases, self._databases = self._databases, {}
        for database in databases.values():
            await database.close()
