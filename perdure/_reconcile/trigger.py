"""The service that starts reconciliations: once per fleet after its start, and when a lifecycle requests one."""

from __future__ import annotations

import asyncio
import random
import time
from datetime import timedelta

from temporalio.client import Client

from perdure._reconcile.schedule import jitter, make_schedule
from perdure._reconcile.starting import start_reconciliation
from perdure._services.service import Service
from perdure._store.postgres import Pool
from perdure._store.sql import queries
from perdure._wire.reconciliation import Named, ReconciliationRequest
from perdure.contracts.keys import Entity
from perdure.settings import Settings

query = queries(__name__)

FIRST = 20.0, 40.0
"""Seconds after a worker's start, at random, so that not all workers of a fleet look at once."""
EVERY = 300.0
"""Seconds between two looks."""
_MOST = 1000
_A_MOMENT = 1.0


class ReconciliationTrigger(Service):
    """Starts reconciliations that are due.

    Args:
        pool: the app's database, with the time of the last reconciliation.
        client: the client of Temporal.
        settings: the interval, and the grace time.
    """

    def __init__(self, pool: Pool, client: Client, settings: Settings) -> None:
        super().__init__("reconciliation", every=EVERY)
        self._pool = pool
        self._client = client
        self._settings = settings
        self._looks_at = time.monotonic() + random.uniform(*FIRST)
        self._asked: dict[Entity, tuple[float, str]] = {}
        self._loop_of_worker: asyncio.AbstractEventLoop | None = None

    async def start(self) -> None:
        """Start; the first look comes a little later."""
        self._loop_of_worker = asyncio.get_running_loop()
        await super().start()

    def ask(self, entity: Entity, why: str) -> None:
        """Request a reconciliation of one entity, after the grace time. Workflows call this from their thread."""
        if len(self._asked) < _MOST:
            due = time.monotonic() + self._settings.reconciliation_grace + _A_MOMENT
            self._asked.setdefault(entity, (due, why))
        if self._loop_of_worker is not None and not self._loop_of_worker.is_closed():
            self._loop_of_worker.call_soon_threadsafe(self.nudge)

    async def once(self) -> bool:
        """Start the reconciliations that are due."""
        now = time.monotonic()
        for entity, (due, why) in list(self._asked.items()):
            if due <= now:
                await self._start(f"{entity.lifecycle}: {why}", entity)
                del self._asked[entity]
        if now >= self._looks_at:
            await self._look()
            self._looks_at = time.monotonic() + EVERY
        soonest = min([self._looks_at, *(due for due, _ in list(self._asked.values()))])
        self.every = max(soonest - time.monotonic(), 0.1)
        return False

    async def _look(self) -> None:
        """Create a missing Schedule, and start a reconciliation if the last one is too long ago."""
        every = timedelta(hours=self._settings.reconciliation_every)
        await self._pool.execute(query("clock_went_back"))
        if not every:
            return
        await make_schedule(self._client, self._settings)
        # A reconciliation of the Schedule comes late by the jitter, and takes some time.
        if await self._pool.fetchval(query("reconciliation_due"), every + 2 * jitter(every) + timedelta(minutes=10)):
            await self._start("worker")

    async def _start(self, by: str, entity: Entity | None = None) -> None:
        only = None if entity is None else Named(lifecycle=entity.lifecycle, id=entity.id, generation=entity.generation)
        await start_reconciliation(self._client, self._settings.scope, ReconciliationRequest(by=by[:200], only=only))
