"""How the app starts a run, and learns that it has ended: what all ways share.

It needs asyncpg alone, because it runs in DBOS's environment too.
"""

from __future__ import annotations

import asyncio
import os
from abc import ABC, abstractmethod
from typing import Any

import asyncpg

COMMENT = {"post_id": 7, "author": "Ann", "body": "Well said. " * 10, "recipient": "bob@blog.example"}
INSERT = "insert into comment (post_id, author, body, recipient) values ($1, $2, $3, $4) returning id"
LOOK = 0.003
"""Seconds between two looks of an app that waits for the end of a run."""


class Starter(ABC):
    """One way; `ids` are the workflow ids of what was started since `begin`."""

    ids: list[str]

    async def begin(self) -> None:
        """Forget what was started before."""
        self.ids = []

    @abstractmethod
    async def start(self) -> Any:
        """Commit a row and start what follows from it; returns what `end_of` needs."""

    @abstractmethod
    async def ended(self) -> int:
        """How many have ended since `begin`, as the app sees it."""

    @abstractmethod
    async def end_of(self, key: Any) -> None:
        """Return when the app has received its end."""


class RowStarter(Starter):
    """The app polls its own row."""

    def __init__(self, pool: asyncpg.Pool[asyncpg.Record]) -> None:
        self.pool = pool
        self._waiting: dict[int, asyncio.Event] = {}
        self._looking: asyncio.Task[None] | None = None

    async def begin(self) -> None:
        """See base class."""
        await super().begin()
        await self.pool.execute("truncate comment")

    async def ended(self) -> int:
        """See base class."""
        return int(await self.pool.fetchval("select count(*) from comment where notification_state = 'sent'"))

    async def end_of(self, key: int) -> None:
        """See base class."""
        end = self._waiting[key] = asyncio.Event()
        if self._looking is None or self._looking.done():
            self._looking = asyncio.create_task(self._look())
        await end.wait()

    async def _look(self) -> None:
        over = "select id from comment where id = any($1) and notification_state = 'sent'"
        while self._waiting:
            for row in await self.pool.fetch(over, list(self._waiting)):
                self._waiting.pop(row["id"]).set()
            await asyncio.sleep(LOOK)


def new_pool() -> asyncpg.Pool[asyncpg.Record]:
    """The app's connections."""
    return asyncpg.create_pool(os.environ["PERDURE_DATABASE_URL"], min_size=2, max_size=10)
