"""Checks in Temporal that this worker still polls: the core of the SDK can hang while the other parts run."""

from __future__ import annotations

import time
from datetime import datetime

from temporalio.client import Client

from perdure._services.queues import read_queue
from perdure._services.service import Service

EVERY = 15.0
"""Seconds between two looks."""
SILENCE = 180.0
"""Seconds without a poll of this worker, while Temporal answers, that count as a hang. One poll lasts 60 s. Inline
effects can occupy all places of a worker, and so stop its polls, while they run."""


class Polling(Service):
    """Notes when this worker last polled its task queue for workflow tasks. It notes nothing while Temporal is away.

    Args:
        client: the client of Temporal.
        queue: name of the task queue.
        identity: the identity of the worker.
        every: seconds between two looks; None = `EVERY`.
        silence: see `SILENCE`.
    """

    def __init__(
        self, client: Client, queue: str, identity: str, every: float | None = None, silence: float = SILENCE
    ) -> None:
        super().__init__("pollers", EVERY if every is None else every)
        self._client = client
        self._queue = queue
        self._identity = identity
        self._silence = silence
        self._polled: datetime | None = None
        self._since = time.monotonic()

    async def once(self) -> bool:
        """One look. It compares two answers of Temporal, because the clocks of Temporal and this machine may differ."""
        try:
            seen = await read_queue(self._client, self._queue, "workflow")
        except BaseException:
            self._since = time.monotonic()
            raise
        polled = seen.pollers.get(self._identity)
        if polled != self._polled:
            self._polled, self._since = polled, time.monotonic()
            self.pulse.hangs(None)
            return False
        silent = time.monotonic() - self._since
        what = f"Temporal answers, and has received no poll of {self._identity} at {self._queue} for {silent:.0f} s"
        if silent > self._silence:
            self.pulse.hangs(what)
        return False
