"""Calls functions that change an entity for a reconciliation, with a little more patience than a worker's writes."""

from __future__ import annotations

from typing import Any

import asyncpg

from perdure._reconcile.context import Context
from perdure._store.bounds import bounds

HELD = (asyncpg.LockNotAvailableError, asyncpg.QueryCanceledError, asyncpg.DeadlockDetectedError)
"""Another session has the entity now: it is left to the next reconciliation."""

_PATIENCE = bounds(lock="2s", statement="20s")
_POOL = 30.0


async def call(context: Context, statement: str, *given: Any) -> Any:
    """The one value that `statement` returns, in a transaction of its own."""
    async with context.pool.acquire(timeout=_POOL) as connection, connection.transaction():
        await connection.execute(_PATIENCE)
        return await connection.fetchval(statement, *given)


async def fetch(context: Context, statement: str, *given: Any) -> list[asyncpg.Record]:
    """The rows that `statement` returns. A page may take longer than a write."""
    async with context.pool.acquire(timeout=_POOL) as connection, connection.transaction(readonly=True):
        await connection.execute(_PATIENCE)
        return await connection.fetch(statement, *given)
