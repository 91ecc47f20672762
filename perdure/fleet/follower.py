"""Brings the app's own column up to date where the app held its row, or refused the value, when it was due."""

from __future__ import annotations

from perdure.fleet.service import Service
from perdure.store.postgres import Pool


class Follower(Service):
    """Settles what stands in `perdure.behind`.

    Args:
        pool: the app's database.
        every: seconds between two looks while nothing waits.
    """

    def __init__(self, pool: Pool, every: float = 0.5) -> None:
        super().__init__("follower", every)
        self._pool = pool

    async def once(self) -> bool:
        """One look; True if something was settled, so that there may be more."""
        async with self._pool.acquire(timeout=5) as connection:
            row = await connection.fetchrow("select settled, waiting from perdure.follow(100)")
        assert row is not None
        return bool(row["settled"] and row["waiting"])
