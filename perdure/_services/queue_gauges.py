"""Reads the task queues from Temporal, and shows them as gauges.

It has rounds of its own: a slow reading of the database must not look as if Temporal were away.
"""

from __future__ import annotations

import asyncio
import math
import time

from temporalio.client import Client
from temporalio.common import MetricMeter

from perdure._services.queues import Queue, queues, read_queue
from perdure._services.service import Service
from perdure.app import App
from perdure.settings import Settings
from perdure.telemetry import names
from perdure.telemetry.metrics import show

EVERY = 15.0
"""Seconds between two readings."""
_UNKNOWN = math.nan
"""The value while Temporal does not answer, because an old value would look like a new one."""


class QueueGauges(Service):
    """Shows pollers and backlog of each task queue, and when Temporal answered last.

    Args:
        client: the client of Temporal.
        app: the app whose task queues are shown.
        settings: the task queue.
        meter: the meter for the gauges.
    """

    def __init__(self, client: Client, app: App, settings: Settings, meter: MetricMeter) -> None:
        super().__init__("task-queue gauges", EVERY)
        self._client = client
        self._meter = meter
        self._queues = queues(app, settings)

    async def once(self) -> bool:
        """Read all queues concurrently, because each question waits for its time-out while Temporal is away."""
        asked = [read_queue(self._client, task_queue, kind) for task_queue, kind in self._queues]
        answers = await asyncio.gather(*asked, return_exceptions=True)
        for (task_queue, kind), answer in zip(self._queues, answers, strict=True):
            self._show(task_queue, kind, answer if isinstance(answer, Queue) else None)
        if any(isinstance(answer, Queue) for answer in answers):
            show(self._meter, names.TEMPORAL_ANSWERED_AT, time.time())
        for answer in answers:
            if isinstance(answer, BaseException):
                raise answer
        return False

    def _show(self, task_queue: str, kind: str, seen: Queue | None) -> None:
        labels = {"task_queue": task_queue, "kind": kind}
        show(self._meter, names.POLLERS, len(seen.pollers) if seen else _UNKNOWN, **labels)
        show(self._meter, names.BACKLOG, seen.backlog if seen else _UNKNOWN, **labels)
        show(self._meter, names.BACKLOG_SECONDS, seen.age if seen else _UNKNOWN, **labels)
