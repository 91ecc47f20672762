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
    """A connection without bounds, while no other export, drop or `perdure.forget` is under way.

    A second connection holds the lock, in an idle transaction: a concurrent detach cannot run in a transaction, and
    behind a pooler no other lock lasts. If it is lost, the work ends, because another one may begin.

    Raises:
        NotNow: another one is under way.
        DatabaseUnavailable: PostgreSQL does not answer.
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
                keeper.add_termination_listener(lambda _: connection.terminate())
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
    """A transaction that may take long, and waits for locks up to 15 s."""
    async with connection.transaction():
        await connection.execute(_LONG)
        yield


async def briefly(connection: Connection, act: Callable[[], Awaitable[object]]) -> None:
    """Run `act` in a transaction. Others may queue behind a lock that it waits for, so it waits for 200 ms at most,
    lets them pass, and tries again for about 15 s.

    Raises:
        asyncpg.LockNotAvailableError: another session has held the lock all the time.
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
    return await connect_for_long_work(url, "perdure archive", pooled=True)
