"""Runs a worker as `perdure worker` does, by its `run`: before temporalio 1.35 the worker's own context manager cancels
plugins before they have stopped, and the code that waits for them with them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from temporalio.worker import Worker

from tests.deadline import DEADLINE


@asynccontextmanager
async def running(worker: Worker) -> AsyncIterator[None]:
    """Run `worker` for as long as the block lasts. If it fails, the block is cancelled and the failure raised."""
    block = asyncio.current_task()
    assert block is not None
    run = asyncio.create_task(worker.run())
    leaving = False

    def ended(run: asyncio.Task[None]) -> None:
        if not leaving and not run.cancelled() and run.exception():
            block.cancel()

    run.add_done_callback(ended)
    try:
        yield
    except asyncio.CancelledError:
        if run.done():
            run.result()
        raise
    finally:
        leaving = True
        shutdown = asyncio.create_task(worker.shutdown())  # of a worker that failed at its start, it never ends
        await asyncio.wait({run}, timeout=DEADLINE)
        assert run.done(), "the worker does not stop"
        shutdown.cancel()
