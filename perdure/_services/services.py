"""The services of one process: started in order, nudged and stopped together."""

from __future__ import annotations

import asyncio

from perdure._pulse import Pulse
from perdure._services.service import Service

STOP = 3.0
"""Seconds that a stop waits for all services together, which may wait for a server that gives no answer. What is left
ends with the pool of its connections."""


class Services:
    """A group of services; empty until it is started."""

    def __init__(self) -> None:
        self._running: list[Service] = []
        self._stopping: set[asyncio.Task[None]] = set()

    @property
    def pulses(self) -> list[Pulse]:
        """The pulses of all running services."""
        return [pulse for service in self._running for pulse in service.pulses]

    async def start(self, *services: Service) -> None:
        """Start services, one after the other."""
        self._running += services
        for service in services:
            await service.start()

    async def stop(self) -> None:
        """Stop all running services at once. A second call waits for those that the first one stops."""
        self._stopping |= {asyncio.create_task(service.stop()) for service in self._running}
        self._running = []
        if self._stopping:
            stopped, _ = await asyncio.wait(self._stopping, timeout=STOP)
            self._stopping = set()
            for each in stopped:
                each.result()

    def nudge(self) -> None:
        """Let all services try again now, because writes are possible again."""
        for service in self._running:
            service.nudge()
