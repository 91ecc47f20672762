"""Asks Temporal whether this worker still polls: the core of the SDK can stand still while everything else runs."""

from __future__ import annotations

import time
from datetime import datetime

from temporalio.client import Client

from perdure._services.queues import read_queue
from perdure._services.service import Service

EVERY = 15.0
"""Seconds between two looks."""
SILENCE = 180.0
"""Seconds for which Temporal answers and receives no poll of this worker, until that counts as a hang. One poll lasts
60 s; inline effects can keep all of a worker's places, and so its polls, for as long as they take."""


class Polling(Service):
    """Notes when this worker last polled its task queue for workflow tasks. While Temporal is away nothing is known.

    Args:
        client: Temporal.
        queue: name of the task queue.
        identity: of the worker.
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
        """One look. By two answers of Temporal that differ, since its clock is not this machine's."""
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
