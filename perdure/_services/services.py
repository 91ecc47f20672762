"""The services of one process: started in order, nudged and stopped together."""

from __future__ import annotations

from perdure._pulse import Pulse
from perdure._services.service import Service


class Services:
    """A group of services; empty until it is started."""

    def __init__(self) -> None:
        self._running: list[Service] = []

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
        """Stop all running services, in the order of their start."""
        services, self._running = self._running, []
        for service in services:
            await service.stop()

    def nudge(self) -> None:
        """Let all services try again now, because writes are possible again."""
        for service in self._running:
            service.nudge()
