"""The worker processes, each with a relay inside: whichever ends is started again, as any platform does."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

import psutil

from tests.chaos.plan import WORKERS
from tests.deadline import DEADLINE
from tests.world import WorkerProcess, World

APPS = "tests.chaos.app:app", "tests.chaos.app:newer"
"""Of one incarnation after the other, so that an older and a newer build run side by side."""
FOREVER = 86_400.0


@dataclass(frozen=True, slots=True)
class End:
    """How one incarnation ended.

    Attributes:
        asked: the signal that it was sent; empty = none, it ended by itself.
        ran: whether it had got as far as running.
        last: the last line that it logged.
    """

    worker: str
    asked: str
    status: int
    ran: bool
    last: str

    @property
    def wrong(self) -> bool:
        """Whether it should not have ended so."""
        if self.asked == "SIGKILL":
            return False
        # Without its servers a worker does not start; one that runs goes on, and stops well.
        return self.ran and (self.status != 0 or not self.asked)


class Slot:
    """One worker after the other under one name."""

    def __init__(self, world: World, name: str, environment: dict[str, str], apps: Sequence[str] = APPS) -> None:
        self.name = name
        self._apps = apps
        self.ends: list[End] = []
        self._world = world
        self._environment = environment
        self._process: WorkerProcess | None = None
        self._asked = ""
        self._away = 0.5
        self._over = False

    async def keep(self) -> None:
        """Run workers until `close`."""
        while not self._over:
            app = self._apps[len(self.ends) % len(self._apps)]
            process = WorkerProcess(self._world, app, self._environment)
            process.log = self._world.folder / f"{self.name}-{len(self.ends) + 1}.log"
            self._world.workers.append(process)
            await process.launch()
            self._asked, self._process = "", process
            status = await process.gone(FOREVER)
            self._process = None
            text = process.text()
            ran = "perdure.worker: running" in text
            self.ends.append(End(self.name, self._asked, status, ran, (text.splitlines() or [""])[-1]))
            if not self._over:
                await asyncio.sleep(self._away)

    async def end(self, number: signal.Signals, away: float) -> None:
        """End the one that runs now; the next is started `away` seconds after its end."""
        if self._process is not None:
            self._asked, self._away = number.name, away
            self._process.send(number)

    async def freeze(self, seconds: float) -> None:
        """Freeze the one that runs now for a while; one that ends at that moment (its servers are away) is over."""
        if (process := self._process) is not None:
            with suppress(ProcessLookupError, psutil.NoSuchProcess):
                await process.freeze()
            await asyncio.sleep(seconds)
            if self._process is process:
                process.thaw()

    async def stand_still(self) -> list[int]:
        """Freeze the one that runs now, which is to be killed next. Returns the ports of its connections."""
        if self._process is None:
            return []
        with suppress(ProcessLookupError, psutil.NoSuchProcess):
            await self._process.freeze()
            return [each.laddr.port for each in psutil.Process(self._process.pid).net_connections("tcp")]
        return []

    async def deploy(self) -> None:
        """Run the newest build alone from now on."""
        self._apps = self._apps[-1:]
        if self._process is not None and self._process.app not in self._apps:
            await self.end(signal.SIGTERM, 0.2)

    @property
    def runs(self) -> bool:
        """Whether it takes work."""
        return self._process is not None and "perdure.worker: running" in self._process.text()

    def close(self) -> None:
        """Start no other one; let this one stop in order."""
        self._over = True
        if self._process is not None:
            self._asked = "SIGTERM"
            self._process.send(signal.SIGTERM)


class Fleet:
    """All of them."""

    def __init__(
        self, world: World, environment: dict[str, str], *, apps: Sequence[str] = APPS, names: Sequence[str] = WORKERS
    ) -> None:
        self.slots = {name: Slot(world, name, environment, apps) for name in names}
        self._keeping: list[asyncio.Task[None]] = []

    async def start(self) -> None:
        """Start all, and wait until they run."""
        self._keeping = [asyncio.create_task(slot.keep()) for slot in self.slots.values()]
        async with asyncio.timeout(DEADLINE):
            while not all(slot.runs for slot in self.slots.values()):
                await asyncio.sleep(0.05)

    async def deploy(self) -> None:
        """Run the newest build alone from now on: no worker of an older one knows the new name of an effect."""
        for slot in self.slots.values():
            await slot.deploy()

    async def close(self) -> list[End]:
        """Stop all in order; how each incarnation ended."""
        for slot in self.slots.values():
            slot.close()
        await asyncio.wait(self._keeping, timeout=DEADLINE)
        for task in self._keeping:
            task.cancel()
        return [end for slot in self.slots.values() for end in slot.ends]
