"""How the pool of connections to the app's database is opened: directly, or behind PgBouncer in transaction mode.

There nothing of a session outlives its transaction. So no statement is prepared by name, and each transaction brings
its bounds along.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import asyncpg

T = TypeVar("T")
Pool: TypeAlias = "asyncpg.Pool[asyncpg.Record]"
if TYPE_CHECKING:
    _Connection: TypeAlias = asyncpg.Connection[asyncpg.Record]
else:
    _Connection = asyncpg.Connection

BOUNDS = {
    # What the app keeps locked must hold up nobody else (invariant 8).
    "lock_timeout": "250ms",
    # Less than postgres.LONGEST: the server ends a statement that stands still, and with it the locks that it holds; it
    # would not notice for a long time that its client has gone.
    "statement_timeout": "1500ms",
    # Each step of a write must see what others committed before it.
    "default_transaction_isolation": "read committed",
}
_NAME = {"application_name": "perdure"}
_ROLLBACK = 1.0

# By the simple protocol: before this is known, nothing may be prepared.
_HOLD = f"""do $$ begin
    if current_setting('lock_timeout') <> '{BOUNDS["lock_timeout"]}' then
        raise exception 'the session has other bounds' using errcode = 'assert_failure';
    end if;
end $$"""
_BEGIN = "".join(f"set local {name.removeprefix('default_')} = '{value}'; " for name, value in BOUNDS.items())


async def open_pool(url: str, most: int) -> Pool:
    """A pool whose sessions have `BOUNDS`, or whose transactions do where a pooler keeps no sessions.

    Args:
        url: `postgresql://user:password@host:port/database`.
        most: how many connections.
    """
    try:
        pool = await _pool(url, most, server_settings=_NAME | BOUNDS)
    except asyncpg.ProtocolViolationError as error:
        if "startup parameter" not in str(error):
            raise
    else:
        if await _hold(pool):
            return pool
        await pool.close()
    return await _pool(
        url, most, server_settings=_NAME, statement_cache_size=0, connection_class=ConnectionWithoutSession
    )


class ConnectionWithoutSession(_Connection):
    """Runs each statement in a transaction that has `BOUNDS`: the open one, or one of its own."""

    async def execute(self, query: str, *args: Any, timeout: float | None = None) -> str:
        """See base class; `transaction()` begins and ends by it."""
        statement = partial(super().execute, query, *args, timeout=timeout)
        if query.startswith("BEGIN"):
            return await super().execute(f"{query} {_BEGIN}", timeout=timeout)
        return await self._bounded(statement, timeout)

    async def fetch(self, query: str, *args: Any, timeout: float | None = None, **more: Any) -> list[Any]:
        """See base class."""
        return await self._bounded(partial(super().fetch, query, *args, timeout=timeout, **more), timeout)

    async def fetchrow(self, query: str, *args: Any, timeout: float | None = None, **more: Any) -> Any:
        """See base class."""
        return await self._bounded(partial(super().fetchrow, query, *args, timeout=timeout, **more), timeout)

    async def fetchval(self, query: str, *args: Any, column: int = 0, timeout: float | None = None) -> Any:
        """See base class."""
        return await self._bounded(partial(super().fetchval, query, *args, column=column, timeout=timeout), timeout)

    async def _bounded(self, statement: Callable[[], Awaitable[T]], timeout: float | None) -> T:
        if self.is_in_transaction():
            return await statement()
        await super().execute(f"begin; {_BEGIN}", timeout=timeout)
        try:
            result = await statement()
            await super().execute("commit", timeout=timeout)
        except (asyncpg.PostgresError, asyncpg.InterfaceError):
            if not self.is_closed() and self.is_in_transaction():
                await super().execute("rollback", timeout=_ROLLBACK)
            raise
        except BaseException:
            self.terminate()  # cut off halfway: the pooler ends the transaction with the connection
            raise
        return result


async def _pool(url: str, most: int, **more: Any) -> Pool:
    return await asyncpg.create_pool(url, min_size=1, max_size=most, timeout=5, reset=_keep_session, **more)


async def _hold(pool: Pool) -> bool:
    """False where a pooler was told to ignore the bounds (ignore_startup_parameters)."""
    try:
        await pool.execute(_HOLD)
    except asyncpg.AssertError:
        return False
    return True


async def _keep_session(connection: Any) -> None:
    """Nobody changes a session's settings here: the pool's own reset would cost each write a second round trip."""
