"""A small worker beside the one of the lifecycles, on a task queue of its own."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from temporalio.worker import Worker

from perdure._services.credentials import renewed


@asynccontextmanager
async def side_worker(
    worker: Worker,
    name: str,
    *,
    patience: float = 2.0,
    ended: Callable[[asyncio.Task[None]], None] | None = None,
) -> AsyncIterator[None]:
    """Run a worker while the context lasts.

    Args:
        name: of its task.
        patience: seconds that it may take to stop; then it is cut off.
        ended: called when it has ended, for whatever reason.
    """
    renewed(worker)
    running = asyncio.create_task(worker.run(), name=name)
    if ended is not None:
        running.add_done_callback(ended)
    try:
        yield
    finally:
        stopping = asyncio.create_task(worker.shutdown())
        await asyncio.wait({running, stopping}, timeout=patience)
        for task in (running, stopping):
            task.cancel()
        await asyncio.gather(running, stopping, return_exceptions=True)
