"""Finds out that the Temporal server hangs: its process runs, and does nothing. It is then killed, and started again.

A hang in which it answers nothing at all is one whatever PostgreSQL does. One in which only a part of it answers counts
while PostgreSQL answers: without PostgreSQL no part can do anything, and a new process would not help.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from datetime import timedelta

from temporalio.client import Client
from temporalio.service import RPCError, RPCStatusCode

from perdure._pulse import Pulse
from perdure._text.privacy import describe
from perdure._worker.child import Child
from perdure.logs import log_event

log = logging.getLogger("perdure.up")

LOOK = 5.0
"""Seconds between two looks."""
WITHIN = timedelta(seconds=10)
"""In which an answer is expected."""
SILENT, PARTIAL = 3, 6
"""Looks in a row without any answer, and with an answer of a part alone, after which it is killed."""
_MOST_LOOKS = 60
"""Where a restart does not help with a part, the next one comes after twice as many looks, and at last so many."""
STARTING = 300.0
"""Seconds after which a start counts as hung, while PostgreSQL answers."""
_NO_ANSWER = (RPCStatusCode.CANCELLED, RPCStatusCode.DEADLINE_EXCEEDED, RPCStatusCode.UNAVAILABLE)


class Hanging:
    """Watches one server.

    Args:
        child: its process.
        address: of its frontend.
        namespace: the namespace of the request.
        parts: sends a request to those parts of it that need PostgreSQL; raises if one does not answer.
        postgres: queries PostgreSQL as the server does; raises if that does not answer. None = the server needs none.
    """

    def __init__(
        self,
        child: Child,
        address: str,
        namespace: str,
        parts: Callable[[Client], Awaitable[None]],
        postgres: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        self._child, self._address, self._namespace = child, address, namespace
        self._parts, self._postgres = parts, postgres
        self.pulse = Pulse(child.name)
        self._silent = self._partial = 0
        self._needed = PARTIAL

    async def watch(self) -> None:
        """Kill the process when it hangs, until this is cancelled."""
        while True:
            await asyncio.sleep(LOOK)
            try:
                await self._look()
            except Exception as error:  # whatever it is, the watch goes on
                log_event(log, "can't find out whether Temporal hangs", level=logging.ERROR, error=describe(error))

    async def _look(self) -> None:
        pid = self._child.pid
        why = await (self._why_hung() if self._child.ready.is_set() else self._why_not_started())
        if why is None or pid != self._child.pid:  # it was started again meanwhile
            return
        log_event(log, "Temporal hangs; it is killed", level=logging.ERROR, pid=pid, why=why)
        self._silent = self._partial = 0
        self._child.kill()

    async def _why_hung(self) -> str | None:
        client = await Client.connect(self._address, namespace=self._namespace, lazy=True)
        if await _silent(client):
            self._silent += 1
            self.pulse.fails("it does not answer")
            return "it does not answer" if self._silent >= SILENT else None
        self._silent = 0
        if (part := await _problem(self._parts(client))) is None:
            self._partial, self._needed = 0, PARTIAL
            self.pulse.works()
            return None
        self.pulse.fails(part)
        self._partial = self._partial + 1 if await self._postgres_answers() else 0
        if self._partial < self._needed:
            return None
        self._needed = min(2 * self._needed, _MOST_LOOKS)
        return f"a part of it does not answer, and PostgreSQL does: {part}"

    async def _why_not_started(self) -> str | None:
        self._silent = self._partial = 0
        began = self._child.since
        if self._child.state != "starting" or time.time() - began < STARTING or not await self._postgres_answers():
            return None
        return f"it has not become ready within {STARTING:.0f} s"

    async def _postgres_answers(self) -> bool:
        return self._postgres is None or await _problem(self._postgres()) is None


async def _silent(client: Client) -> bool:
    """Whether nothing answers: any answer of the process, also an error, shows that it runs."""
    try:  # the time-out of a call does not bound the connection, which a stopped process accepts and never answers
        asked = client.service_client.check_health(timeout=WITHIN)
        await asyncio.wait_for(asked, WITHIN.total_seconds() + 1)
    except TimeoutError:
        return True
    except RPCError as error:
        return error.status in _NO_ANSWER
    except RuntimeError:  # no connection
        return True
    return False


async def _problem(asked: Awaitable[None]) -> str | None:
    """Why there was no answer in time; None = there was one."""
    try:
        await asyncio.wait_for(asked, 1.5 * WITHIN.total_seconds())
    except RPCError as error:  # any other error is an answer
        return f"no answer: {error.status.name}" if error.status in _NO_ANSWER else None
    except TimeoutError:
        return "no answer"
    except Exception as error:
        return describe(error)
    return None
