"""A connection for long work on months, which one process at a time does in a database."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import asyncpg

from perdure._store.bounds import bounds
from perdure._store.connecting import connect_for_long_work
from perdure._store.postgres import answering
from perdure._store.schema import Connection
from perdure.errors import NotNow

_LOCK = "select pg_advisory_xact_lock(hashtext('perdure.archive'))"
_PATH = "set local search_path = pg_catalog"
_WAITING = bounds(lock="5s", idle="0")
_LONG = f"{bounds(lock='15s', statement='0')}; {_PATH}"
_BRIEF = f"{bounds(lock='200ms', statement='0')}; {_PATH}"
_TRIES = 40
_PAUSE = 0.2


@asynccontextmanager
async def working(url: str) -> AsyncIterator[Connection]:
    """A connection that nobody else bounds, while no other export, drop or `perdure.forget` is under way.

    The lock is held by a second connection, in a transaction that stands still: what is detached concurrently can't
    stand in one, and behind a pooler nothing else lasts.

    Raises:
        NotNow: another one is under way.
        DatabaseUnavailable: no PostgreSQL answers.
    """
    with answering():
        keeper = await _connect(url)
        try:
            async with keeper.transaction():
                await keeper.execute(_WAITING)
                try:
                    await keeper.execute(_LOCK)
                except asyncpg.LockNotAvailableError:
                    raise NotNow(
                        "another export or drop is under way in this database: wait until it is over"
                    ) from None
                connection = await _connect(url)
                try:
                    yield connection
                except asyncpg.LockNotAvailableError as error:
                    raise NotNow(f"another session holds a lock that this needs ({error}): run it again") from error
                finally:
                    await connection.close(timeout=2)
        finally:
            await keeper.close(timeout=2)


@asynccontextmanager
async def step(connection: Connection) -> AsyncIterator[None]:
    """A transaction that may take long, and waits for others 15 s."""
    async with connection.transaction():
        await connection.execute(_LONG)
        yield


async def briefly(connection: Connection, act: Callable[[], Awaitable[object]]) -> None:
    """Run `act` in a transaction. Whoever comes while it waits for a lock may have to wait behind it: so it waits for
    200 ms at most, lets them go ahead, and is tried again, for some 15 s.

    Raises:
        asyncpg.LockNotAvailableError: somebody has held what it needs all the time.
    """
    for left in reversed(range(_TRIES)):
        try:
            async with connection.transaction():
                await connection.execute(_BRIEF)
                await act()
            return
        except asyncpg.LockNotAvailableError:
            if not left:
                raise
            await asyncio.sleep(_PAUSE)


async def _connect(url: str) -> asyncpg.Connection[asyncpg.Record]:
    return await connect_for_long_work(url, "perdure archive", statement_cache_size=0)
