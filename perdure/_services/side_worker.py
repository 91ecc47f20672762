"""A small worker beside the worker of the lifecycles, on a task queue of its own."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from temporalio.worker import Worker

from perdure._pulse import Pulse
from perdure._services.credentials import renewed
from perdure._text.privacy import describe

log = logging.getLogger("perdure.worker")


@asynccontextmanager
async def side_worker(
    worker: Worker,
    name: str,
    *,
    patience: float = 2.0,
    pulse: Pulse | None = None,
) -> AsyncIterator[None]:
    """Run a worker while the context lasts.

    Args:
        name: the name of the worker's task.
        patience: seconds that the worker may take to stop, before it is cancelled.
        pulse: reports that the worker has ended, if it ends by itself.
    """
    renewed(worker)
    running = asyncio.create_task(worker.run(), name=name)
    leaving = False

    def ended(task: asyncio.Task[None]) -> None:
        if leaving:
            return
        error = None if task.cancelled() else task.exception()
        log.error("%s has ended", name, exc_info=error)
        if pulse is not None:
            pulse.hangs(f"it has ended: {describe(error)}" if error else "it has ended")

    running.add_done_callback(ended)
    try:
        yield
    finally:
        leaving = True
        stopping = asyncio.create_task(worker.shutdown())
        await asyncio.wait({running, stopping}, timeout=patience)
        for task in (running, stopping):
            task.cancel()
        await asyncio.gather(running, stopping, return_exceptions=True)
