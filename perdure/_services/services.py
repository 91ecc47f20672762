"""The services of one process: started in order, nudged and stopped together."""

from __future__ import annotations

from temporalio.client import Client
from temporalio.common import MetricMeter

from perdure._services.gauges import Gauges
from perdure._services.relay import Relay
from perdure._services.service import Service
from perdure._store.postgres import Pool
from perdure.app import App
from perdure.settings import Settings


class Services:
    """A group of services; empty until it is started."""

    def __init__(self) -> None:
        self._running: list[Service] = []

    async def start(self, *services: Service) -> None:
        """Start them, one after the other."""
        self._running += services
        for service in services:
            await service.start()

    async def stop(self) -> None:
        """Stop all that run, in the order in which they were started."""
        services, self._running = self._running, []
        for service in services:
            await service.stop()

    def nudge(self) -> None:
        """Writes may go again: whoever waits for that need not wait longer."""
        for service in self._running:
            service.nudge()


def delivering(
    pool: Pool, client: Client, app: App, config: Settings, meter: MetricMeter | None, *, relay: bool
) -> list[Service]:
    """The relay, if this process has one, and the gauges, if metrics are exported."""
    services: list[Service] = [Relay(pool, client, app, config, meter)] if relay else []
    if meter is not None:
        services.append(Gauges(pool, client, app, config, meter))
    return services
