"""The load: an application that commits orders at a steady pace, and remembers which commits were acknowledged."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field

import asyncpg

_GONE = (OSError, TimeoutError, asyncpg.PostgresError, asyncpg.InterfaceError)
_TAKE = """
    with taken as (insert into orders (id) values ($1))
    select perdure.start('order', $1::text, jsonb_build_object('number', $1::bigint))
"""


@dataclass
class Load:
    """What the application has committed.

    Attributes:
        acknowledged: the time, in seconds since the epoch, at which each commit was acknowledged.
    """

    dsn: str
    a_second: float
    acknowledged: dict[int, float] = field(default_factory=dict)
    _number: int = 0

    async def go_on(self) -> None:
        """Commit orders until cancelled; connect again when the database is away."""
        while True:
            with suppress(*_GONE):
                await self._connected()
            await asyncio.sleep(0.1)

    async def _connected(self) -> None:
        connection = await asyncpg.connect(self.dsn, timeout=5, command_timeout=5)
        try:
            while True:
                self._number += 1
                await connection.execute(_TAKE, self._number)
                self.acknowledged[self._number] = time.time()
                await asyncio.sleep(1 / self.a_second)
        finally:
            connection.terminate()

    async def have_committed(self, count: int) -> None:
        """Wait until so many more orders are acknowledged."""
        enough = len(self.acknowledged) + count
        while len(self.acknowledged) < enough:  # noqa: ASYNC110 - one task, and no event for each commit
            await asyncio.sleep(0.02)


@asynccontextmanager
async def under_load(load: Load) -> AsyncIterator[None]:
    """Commit orders for as long as the context lasts."""
    task = asyncio.create_task(load.go_on())
    try:
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
