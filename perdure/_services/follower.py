"""Updates the app's own column right after each commit with a new state. It never does so in that commit, so that
neither the app's locks nor its triggers delay an effect (invariant 8)."""

from __future__ import annotations

import asyncio
import itertools
import logging
import time

import asyncpg

from perdure._services.service import Service
from perdure._store.bounds import bounds
from perdure._store.postgres import Pool, kind_of
from perdure._store.sql import queries
from perdure.logs import log_event

query = queries(__name__)

log = logging.getLogger("perdure.follower")

BATCH = 100
"""Entities in one transaction."""
GATHER = 0.1
"""Least seconds between two looks while many columns are due, so that many rows share a transaction."""
MUCH = 5
_AT_ONCE = 0.005
SLICE = 2.0
"""Seconds for the rows of one table while each row has a transaction of its own."""
_ALONE = bounds(statement="5s")
"""Time-out for the app's triggers if no other row waits for them in the same transaction."""
_LISTED = bounds(statement="30s")
"""Time-out for the list of what is due, which takes long if very many rows can't be shown."""
_DEFERRED = "set local search_path to default; set constraints all immediate"
"""Fires the app's deferred triggers in a statement, because the commit itself has no time-out. They find their tables
by the path of the app's own sessions."""


class Follower(Service):
    """Updates the columns that are due in `perdure.behind`.

    Args:
        pool: the app's database, opened with `triggers`. The triggers of the app's tables have all rights of its
            sessions.
        every: seconds between two looks without a nudge.
    """

    def __init__(self, pool: Pool, every: float = 0.5) -> None:
        super().__init__("follower", every)
        self._pool = pool
        self._looked_at = 0.0
        self._gap = _AT_ONCE

    async def once(self) -> bool:
        """One look. Returns True if a column was updated, because more may be due."""
        await asyncio.sleep(self._looked_at + self._gap - time.monotonic())
        self._looked_at = time.monotonic()
        try:
            async with self._pool.acquire(timeout=5) as connection:
                row = await connection.fetchrow(query("follow"), BATCH)
        except asyncpg.PostgresError as error:
            if not _of_a_row(error):
                raise
            return await self._each_by_itself()
        assert row is not None
        self._gap = GATHER if row["settled"] >= MUCH else _AT_ONCE
        return bool(row["settled"] and row["waiting"])

    async def _each_by_itself(self) -> bool:
        """Update each column in a transaction of its own, so that a refused or slow one delays no other."""
        async with self._pool.acquire(timeout=5) as connection, connection.transaction(readonly=True):
            await connection.execute(_LISTED)
            rows = await connection.fetch(query("columns_due"), BATCH)
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
            if not _of_a_row(error):
                raise
            why = kind_of(error)
            what = "the app's row can't be brought up to date, and is tried again later"
            log_event(log, what, level=logging.WARNING, lifecycle=lifecycle, id=entity_id, why=str(why))
            await self._pool.execute(query("put_off_column"), lifecycle, entity_id, str(why))
            return False


def _of_a_row(error: asyncpg.PostgresError) -> bool:
    """Whether PostgreSQL refused the statement. A trigger may fail with any SQLSTATE, also with that of a lost
    connection, but only an error about the session or the server ends the session."""
    return error.severity_en == "ERROR"
