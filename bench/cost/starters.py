"""How the app starts a run, and learns that it has ended, each way."""

from __future__ import annotations

import asyncio
import os
import secrets
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import asyncpg
import temporalio.client
from temporalio.worker import Worker

from activities.comments.contracts import Comment
from bench.cost.counting import ended
from bench.cost.floor import Nothing
from bench.cost.lifecycles import ByActivity, Inline
from bench.cost.sample import CommentInput, SampleNotification
from perdure import Client

COMMENT = {"post_id": 7, "author": "Ann", "body": "Well said. " * 10, "recipient": "bob@blog.example"}
LOOK = 0.003
"""Seconds between two looks of an app that waits for the end of a run."""

_INSERT = "insert into comment (post_id, author, body, recipient) values ($1, $2, $3, $4) returning id"


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
        """Return when the app is told that it has ended."""


class RowStarter(Starter):
    """The app has a row, and asks that row."""

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


class SampleStarter(RowStarter):
    """A row, then a start: two commits in two systems, as everybody does."""

    def __init__(self, pool: asyncpg.Pool[asyncpg.Record], client: temporalio.client.Client, task_queue: str) -> None:
        super().__init__(pool)
        self._client, self._task_queue = client, task_queue

    async def start(self) -> int:
        """See base class."""
        key = int(await self.pool.fetchval(_INSERT, *COMMENT.values()))
        workflow_id = f"sample-{key}"
        given = CommentInput(id=key, **COMMENT)  # type: ignore[arg-type]
        await self._client.start_workflow(SampleNotification.run, given, id=workflow_id, task_queue=self._task_queue)
        self.ids.append(workflow_id)
        return key


class OurStarter(RowStarter):
    """A row and its start in one transaction."""

    def __init__(
        self, pool: asyncpg.Pool[asyncpg.Record], client: Client, lifecycle: type[ByActivity] | type[Inline]
    ) -> None:
        super().__init__(pool)
        self._client, self._lifecycle = client, lifecycle

    async def start(self) -> int:
        """See base class."""
        async with self.pool.acquire() as connection, connection.transaction():
            key = int(await connection.fetchval(_INSERT, *COMMENT.values()))
            given = Comment(id=key, **COMMENT)  # type: ignore[arg-type]
            handle = await self._client.start(self._lifecycle, key, given, connection=connection)
        self.ids.append(handle.entity.workflow_id(os.environ["PERDURE_SCOPE"]))
        return key


class FloorStarter(Starter):
    """No row; the worker runs in this process, so that the start can be eager."""

    def __init__(self, client: temporalio.client.Client, task_queue: str) -> None:
        self._client, self._task_queue, self._next = client, task_queue, 0

    async def begin(self) -> None:
        """See base class."""
        await super().begin()
        ended.clear()

    async def start(self) -> temporalio.client.WorkflowHandle[Any, Any]:
        """See base class."""
        self._next += 1
        handle = await self._client.start_workflow(
            Nothing.run,
            self._next,
            id=f"nothing-{secrets.token_hex(8)}",
            task_queue=self._task_queue,
            request_eager_start=True,
        )
        self.ids.append(handle.id)
        return handle

    async def ended(self) -> int:
        """See base class."""
        return len(ended)

    async def end_of(self, key: temporalio.client.WorkflowHandle[Any, Any]) -> None:
        """See base class."""
        await key.result()


@asynccontextmanager
async def _sample(task_queue: str) -> AsyncIterator[Starter]:
    client = await temporalio.client.Client.connect(os.environ["TEMPORAL_ADDRESS"])
    async with _pool() as pool:
        yield SampleStarter(pool, client, task_queue)


def _ours(lifecycle: type[ByActivity] | type[Inline]) -> Callable[[str], AbstractAsyncContextManager[Starter]]:
    @asynccontextmanager
    async def make(task_queue: str) -> AsyncIterator[Starter]:
        async with _pool() as pool:
            yield OurStarter(pool, Client(pool), lifecycle)

    return make


@asynccontextmanager
async def _floor(task_queue: str) -> AsyncIterator[Starter]:
    client = await temporalio.client.Client.connect(os.environ["TEMPORAL_ADDRESS"])
    async with Worker(client, task_queue=task_queue, workflows=[Nothing]):
        yield FloorStarter(client, task_queue)


def _pool() -> asyncpg.Pool[asyncpg.Record]:
    return asyncpg.create_pool(os.environ["PERDURE_DATABASE_URL"], min_size=2, max_size=10)


starters: dict[str, Callable[[str], AbstractAsyncContextManager[Starter]]] = {
    "sample": _sample,
    "activity": _ours(ByActivity),
    "inline": _ours(Inline),
    "floor": _floor,
}
