"""Serves the task queues of rate limits: beside a worker, one worker for activities alone for each `RateLimit` of the
app.

Temporal limits the rate of all workers together: each reports the same number, and the server starts no more than that.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from typing import Any

from temporalio.client import Client
from temporalio.worker import Worker

from perdure._services.credentials import renewed
from perdure.contracts.limits import RateLimit

Run = Callable[[Worker], Awaitable[None]]


async def run_with_limits(worker: Worker, limits: Mapping[str, RateLimit], run: Run) -> None:
    """Run `worker`, and those of its rate limits, until it is stopped. Then all stop at once, within one grace time.

    A worker that fails stops the others, because a worker that performs only some of its effects must not look healthy.

    Raises:
        Exception: the failure of a worker.
    """
    if not limits:
        return await run(worker)
    workers = [worker, *(_beside(worker, limit) for limit in limits.values())]
    _stop_together(workers)
    running = [asyncio.ensure_future(run(worker)), *(asyncio.ensure_future(each.run()) for each in workers[1:])]
    try:
        await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
    except asyncio.CancelledError:
        running[0].cancel()
        raise
    finally:
        await asyncio.gather(worker.shutdown(), *running, return_exceptions=True)
    for each in running:
        each.result()


def _beside(worker: Worker, limit: RateLimit) -> Worker:
    """A worker like the other one (activities, grace, interceptors, version), except for its task queue and tasks."""
    config = worker.config(active_config=True)
    config["client"], config["plugins"] = _without_plugins(worker.client), []
    config["workflows"], config["nexus_service_handlers"] = [], []
    config["task_queue"] = limit.task_queue(worker.task_queue)
    config["max_task_queue_activities_per_second"] = limit.per_second
    return renewed(Worker(**config))


def _without_plugins(client: Client) -> Client:
    """The same connection, converter and tracing; the plugins would run a worker inside the worker."""
    config = client.config(active_config=True)
    config["plugins"] = []
    return Client(**config)


def _stop_together(workers: list[Worker]) -> None:
    """Make a stop of the first worker stop all, because its caller has only that one."""
    stops: list[Callable[[], Coroutine[Any, Any, None]]] = [each.shutdown for each in workers]

    async def stop() -> None:
        await asyncio.gather(*(each() for each in stops))

    workers[0].shutdown = stop  # type: ignore[method-assign]
