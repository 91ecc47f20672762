"""Brings the app's own column up to date, right after each commit that has something to show: never in it, so that
neither the app's locks nor its triggers hold up an effect (invariant 8)."""

from __future__ import annotations

import asyncio
import itertools
import logging
import time

import asyncpg

from perdure._services.service import Service
from perdure._store.bounds import bounds
from perdure._store.group_commit import Locked, Unacceptable
from perdure._store.postgres import Pool, kind_of
from perdure._store.sql import queries
from perdure.logs import says

query = queries(__name__)

log = logging.getLogger("perdure.follower")

BATCH = 100
"""Entities in one transaction."""
GATHER = 0.1
"""Seconds between two looks at least where there is much to show: many rows share a transaction."""
MUCH = 5
_AT_ONCE = 0.005
SLICE = 2.0
"""Seconds for the rows of one table while each of them has a transaction of its own."""
_ALONE = bounds(statement="5s")
"""The app's triggers may take so long where no other row waits for them in the same transaction."""
_DEFERRED = "set constraints all immediate"
"""Has the app's deferred triggers fire in a statement: the commit itself has no time-out."""


class Follower(Service):
    """Settles what stands in `perdure.behind`.

    Args:
        pool: the app's database. The triggers of the app's tables may do whatever its sessions may.
        every: seconds between two looks while nobody nudges.
    """

    def __init__(self, pool: Pool, every: float = 0.5) -> None:
        super().__init__("follower", every)
        self._pool = pool
        self._looked_at = 0.0
        self._gap = _AT_ONCE

    async def once(self) -> bool:
        """One look; True if something was settled, so that there may be more."""
        await asyncio.sleep(self._looked_at + self._gap - time.monotonic())
        self._looked_at = time.monotonic()
        try:
            async with self._pool.acquire(timeout=5) as connection:
                row = await connection.fetchrow(query("follow"), BATCH)
        except asyncpg.PostgresError as error:
            if not isinstance(kind_of(error), (Locked, Unacceptable)):
                raise
            return await self._each_by_itself()
        assert row is not None
        self._gap = GATHER if row["settled"] >= MUCH else _AT_ONCE
        return bool(row["settled"] and row["waiting"])

    async def _each_by_itself(self) -> bool:
        """One of them is refused, or slow, maybe only at the commit: nobody else's progress depends on it."""
        rows = await self._pool.fetch(query("columns_due"), BATCH)
        settled = False
        for _, of_table in itertools.groupby(rows, key=lambda row: row["app_table"]):
            until = time.monotonic() + SLICE
            for row in of_table:
                settled |= await self._show(row["lifecycle"], row["id"])
                if time.monotonic() > until:
                    break
        return settled

    async def _show(self, lifecycle: str, entity_id: str) -> bool:
        try:
            async with self._pool.acquire(timeout=5) as connection, connection.transaction():
                await connection.execute(_ALONE)
                found = await connection.fetchval(query("show_in_app"), lifecycle, entity_id)
                await connection.execute(_DEFERRED)
            return found in ("shown", "missing")
        except asyncpg.PostgresError as error:
            why = kind_of(error)
            if not isinstance(why, (Locked, Unacceptable)):
                raise
            what = "the app's row can't be brought up to date, and is tried again later"
            says(log, what, level=logging.WARNING, lifecycle=lifecycle, id=entity_id, why=str(why))
            await self._pool.execute(query("put_off_column"), lifecycle, entity_id, str(why))
            return False
