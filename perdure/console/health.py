"""The health of a console process, served at PERDURE_HEALTH as that of every other process, by threads of its own."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from perdure._operations.selection import known_lifecycles
from perdure._services.health import EventLoop, Health
from perdure._services.service import Service
from perdure._worker.serving import probes, serving
from perdure.console.sources import Sources
from perdure.settings import Settings


class _Reading(Service):
    """Reads the database as the pages do. They say so themselves where Temporal is away."""

    def __init__(self, sources: Sources) -> None:
        super().__init__("pages", every=5.0)
        self._sources = sources
        self.pulse.fails("nothing was read yet")

    async def once(self) -> bool:
        """See base class."""
        async with self._sources.reading() as connection:
            await known_lifecycles(connection)
        return False


@asynccontextmanager
async def healthy(config: Settings, sources: Sources) -> AsyncIterator[Health]:
    """Serve `/live` and `/ready` until the block ends; without an address, serve nothing.

    Raises:
        InvalidSetting: the address can't be used.
    """
    health, services = Health("console"), (EventLoop(), _Reading(sources))
    with serving(f"PERDURE_HEALTH={config.health!r}", config.health, probes(health)):
        if config.health is None:
            yield health
            return
        for each in services:
            await each.start()
            health.watch(each.pulses)
        try:
            yield health
        finally:
            for each in services:
                await each.stop()
