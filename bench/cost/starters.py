"""How the app starts a run, and learns that it has ended, where Temporal runs it."""

from __future__ import annotations

import os
import secrets
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import asyncpg
import temporalio.client
from temporalio.worker import UnsandboxedWorkflowRunner, Worker

from activities.comments.contracts import Comment
from bench.cost.counting import ended
from bench.cost.floor import Nothing
from bench.cost.lifecycles import ByActivity, Inline
from bench.cost.sample import CommentInput, SampleNotification
from bench.cost.starter import COMMENT, INSERT, RowStarter, Starter, new_pool
from perdure import Client
from perdure._worker.worker import POLLERS, WORKFLOW_TASKS


class SampleStarter(RowStarter):
    """A row, then a start: two commits in two systems, as everybody does."""

    def __init__(self, pool: asyncpg.Pool[asyncpg.Record], client: temporalio.client.Client, task_queue: str) -> None:
        super().__init__(pool)
        self._client, self._task_queue = client, task_queue

    async def start(self) -> int:
        """See base class."""
        key = int(await self.pool.fetchval(INSERT, *COMMENT.values()))
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
            key = int(await connection.fetchval(INSERT, *COMMENT.values()))
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
async def sample(task_queue: str) -> AsyncIterator[Starter]:
    """The app beside the sample's worker."""
    client = await temporalio.client.Client.connect(os.environ["TEMPORAL_ADDRESS"])
    async with new_pool() as pool:
        yield SampleStarter(pool, client, task_queue)


def _ours(lifecycle: type[ByActivity] | type[Inline]) -> Callable[[str], AbstractAsyncContextManager[Starter]]:
    @asynccontextmanager
    async def make(task_queue: str) -> AsyncIterator[Starter]:
        async with new_pool() as pool:
            yield OurStarter(pool, Client(pool), lifecycle)

    return make


activity = _ours(ByActivity)
inline = _ours(Inline)


@asynccontextmanager
async def floor(task_queue: str) -> AsyncIterator[Starter]:
    """The app with its worker, which polls as Perdure's does and has no sandbox, as Perdure's mostly has none."""
    client = await temporalio.client.Client.connect(os.environ["TEMPORAL_ADDRESS"])
    async with Worker(
        client,
        task_queue=task_queue,
        workflows=[Nothing],
        workflow_runner=UnsandboxedWorkflowRunner(),
        max_concurrent_workflow_tasks=WORKFLOW_TASKS,
        workflow_task_poller_behavior=POLLERS,
        nonsticky_to_sticky_poll_ratio=0.6,
    ):
        yield FloorStarter(client, task_queue)
