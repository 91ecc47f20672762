"""The shape of every background service: `start`, `stop`, a loop, and one verb of the subclass."""

from __future__ import annotations

import asyncio
import logging
import random
import time

from temporalio.service import RPCError

from perdure._pulse import Pulse, follow
from perdure._store.connecting import DATABASE_ERRORS
from perdure._text.privacy import reason
from perdure.errors import PerdureError
from perdure.logs import log_event

log = logging.getLogger("perdure.service")

EXPECTED_ERRORS = (PerdureError, RPCError, *DATABASE_ERRORS)
"""Failures of the outside world. A service logs them, and continues."""


LOG_AGAIN = 60.0
"""Seconds after which a lasting failure is logged again."""


class Service:
    """Repeats one action until it is stopped.

    Args:
        name: for the logs.
        every: seconds between two rounds while there is nothing to do.
    """

    LONGEST_PAUSE = 5.0
    """Seconds between two rounds while the outside world fails."""

    def __init__(self, name: str, every: float) -> None:
        self.name = name
        self.every = every
        self._task: asyncio.Task[None] | None = None
        self._stopping = asyncio.Event()
        self._nudged = asyncio.Event()
        self._logged: tuple[str, float] = "", 0.0
        self.pulse = Pulse(name)
        self.held_up: str | None = None
        """Why the service may do nothing now although its rounds succeed; None = it may."""

    @property
    def pulses(self) -> list[Pulse]:
        """The pulses of this service, and of the services that it starts."""
        return [self.pulse]

    async def once(self) -> bool:
        """One round. Returns True if there is more to do at once."""
        raise NotImplementedError

    async def start(self) -> None:
        """Start in the background."""
        self._stopping.clear()
        self.pulse.beat()
        self._task = asyncio.create_task(self._loop(), name=f"perdure {self.name}")
        self._task.add_done_callback(self._ended)

    async def stop(self, *, patience: float = 2.0) -> None:
        """End after the round under way; cut it off after `patience` seconds."""
        self._stopping.set()
        self._nudged.set()
        task, self._task = self._task, None
        if task is not None:
            await asyncio.wait({task}, timeout=patience)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        self.pulse.rest()

    def _ended(self, task: asyncio.Task[None]) -> None:
        if task is self._task:
            self.pulse.hangs("it has ended")

    def nudge(self) -> None:
        """Begin the next round now, because there is something to do."""
        self._nudged.set()

    async def _loop(self) -> None:
        failures = 0
        follow(self.pulse)
        while not self._stopping.is_set():
            self._nudged.clear()
            self.pulse.beat()
            try:
                more = await self.once()
                failures = 0
                self.pulse.works() if self.held_up is None else self.pulse.fails(self.held_up)
            except Exception as error:  # a service that ended would leave the worker running without it
                more, failures = False, failures + 1
                self._log_failure(error, failures)
            if not more:
                await self._rest(failures)

    def _log_failure(self, error: Exception, failures: int) -> None:
        self.pulse.fails(_why(error))
        if isinstance(error, EXPECTED_ERRORS):
            why = _why(error)
            logged, at = self._logged
            if why == logged and time.monotonic() < at + LOG_AGAIN:
                return
            self._logged = why, time.monotonic()
            log_event(log, f"{self.name}: failed, goes on", level=logging.WARNING, failures=failures, why=why)
        else:
            log.error("%s: a bug, goes on", self.name, exc_info=error)

    async def _rest(self, failures: int) -> None:
        """Pause, with jitter, so that the processes of a fleet do not act at the same time."""
        growth = 2 ** min(failures, 30)  # after an outage of hours the number would be too large for a float
        pause = min(self.every * growth, max(self.LONGEST_PAUSE, self.every)) * random.uniform(0.8, 1.2)
        self.pulse.beat(pause)
        try:
            await asyncio.wait_for(self._nudged.wait(), pause)
        except TimeoutError:
            return


def _why(error: Exception) -> str:
    """In one line. The message of Temporal is about the server and a workflow, and that of a time-out about a
    statement: they quote no data."""
    if isinstance(error, RPCError):
        return error.message
    if isinstance(error, TimeoutError) and error.errno is None:  # else the operating system's
        return str(error) or "PostgreSQL gave no connection in time"
    return reason(error)
