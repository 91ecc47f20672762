"""The relay: delivers the rows of the outbox to Temporal. Any number may run; each entity goes to one of them.

A batch is claimed, delivered and deleted in one transaction, and every delivery can be repeated: after a
crash at any instant a row is delivered again, and never lost.
"""

from __future__ import annotations

import asyncio
import logging
import os
import random
import secrets
import socket
from collections.abc import Sequence
from contextlib import suppress

import asyncpg
from temporalio.client import Client
from temporalio.common import MetricMeter

from perdure import _faults as faults
from perdure._pulse import Pulse
from perdure._services.delivery import Delivery, Row
from perdure._services.indexing import Indexing
from perdure._services.line import Line, order, read_lines
from perdure._services.listener import Listener
from perdure._services.pace import FEW, FULL, Pace
from perdure._services.presence import NOTED_EVERY, Presence
from perdure._services.results import TEMPORAL_ERRORS, Results
from perdure._services.service import EXPECTED_ERRORS, Service
from perdure._store.postgres import Pool
from perdure._store.schema import Connection
from perdure._store.sql import queries
from perdure._text.privacy import describe
from perdure._workflow.messages import signals
from perdure.app import App
from perdure.errors import TemporalUnavailable
from perdure.logs import log_event
from perdure.settings import Settings
from perdure.telemetry import metrics, names

query = queries(__name__)

log = logging.getLogger("perdure.relay")


class Relay(Service):
    """Delivers the rows of the outbox.

    Args:
        pool: the app's database.
        client: the client of Temporal. If a worker of the same process uses it too, workflows start eagerly.
        app: the app with the lifecycles.
        settings: scope, task queue, pace.
        meter: counts the results of the deliveries.
        indexing: the search attributes that a run may have; None = none.
        id: the name of the relay; None = a new one.

    Attributes:
        presence: its note in the database.
        pace: the size of the next batch.
        delivered: number of delivered rows.
    """

    def __init__(
        self,
        pool: Pool,
        client: Client,
        app: App,
        settings: Settings,
        meter: MetricMeter | None = None,
        indexing: Indexing | None = None,
        *,
        id: str | None = None,
    ) -> None:
        super().__init__("relay", settings.relay_poll_interval)
        self._pool = pool
        self._delivery = Delivery(client, app, settings, indexing)
        self._lifecycles = list(app.lifecycles)
        self._listener = Listener(pool, settings.database_url, self.nudge)
        self._meter = meter
        id = id or f"{socket.gethostname()}-{os.getpid()}-{secrets.token_hex(4)}"
        taken = [f"{name}.{signal}" for name, each in app.lifecycles.items() for signal in signals(each)]
        self.presence = Presence(id, self._lifecycles, taken, self._listener, many=FEW)
        self._results = Results(id, {name: each.declared.initial.value for name, each in app.lifecycles.items()})
        self.pace = Pace(settings.relay_poll_interval)
        self.delivered = 0

    async def once(self) -> bool:
        """Deliver a batch. Returns True if more may be due."""
        async with self._pool.acquire(timeout=5) as connection:
            await self.presence.note(connection, 2 * NOTED_EVERY)
            if not await self.presence.choose_notice(connection, busy=self.pace.busy):
                self.pace.note_busy()
            more = await self._deliver_due(connection)
            await self.presence.note(connection)  # after the delivery, which does not wait for this
            return more

    @property
    def pulses(self) -> list[Pulse]:
        """See base class."""
        return [self.pulse, self._listener.pulse]

    async def start(self) -> None:
        """See base class."""
        await self._listener.start()
        await super().start()

    async def stop(self, *, patience: float = 2.0) -> None:
        """See base class. The other relays no longer count this one."""
        await super().stop(patience=patience)
        await self._listener.stop(patience=patience)
        with suppress(*EXPECTED_ERRORS):
            await self.leave()

    async def leave(self) -> None:
        """Note that this relay has stopped."""
        await self.presence.leave(self._pool)

    async def _deliver_due(self, connection: Connection) -> bool:
        if not await connection.fetchval(query("due"), self._lifecycles):
            self.every = self.pace.idle(notified=self.presence.notified)
            return False
        claimed: list[Row] = []
        try:
            return await self._deliver_batch(connection, claimed)
        except Exception as error:
            if not claimed or not _is_of_rows(error):
                raise
            await self._divide(connection, claimed, error)
            return True

    async def _deliver_batch(self, connection: Connection, claimed: list[Row]) -> bool:
        size = self.pace.next_size()
        async with connection.transaction():
            claimed += await self._claim(connection, size)
            if not claimed:  # another relay delivers them now, or they are left to others
                self.every = self.pace.idle(notified=self.presence.notified)
                return False
            if whole := len(claimed) == size:
                await connection.execute(query("plan_anew"))
            lines = await read_lines(connection, claimed)
            await asyncio.gather(*(line.deliver(self._delivery) for line in lines))
            away = self._why_away(lines)
            await self._results.record(connection, lines, away=away is not None)
            ordered = await order(connection, lines)
            for line in lines:
                for row in line.delivered:
                    faults.point("after the delivery of a", row["kind"])
            faults.point("before the commit of the outbox")
        faults.point("after the commit of the outbox")
        full = self._note_delivered(lines) and whole
        if away is not None:
            raise (
                away
                if isinstance(away, TemporalUnavailable)
                else TemporalUnavailable(f"Temporal accepts nothing: {away}")
            )
        return ordered or full or any(line.declined for line in lines)

    async def _claim(self, connection: Connection, most: int) -> list[Row]:
        """Entities that no other relay delivers to now."""
        await connection.execute(query("settings"))
        # In another order each time, so that of two lifecycles with a backlog neither waits for the other.
        known = random.sample(self._lifecycles, len(self._lifecycles))
        return await connection.fetch(query("claim"), most, known, self.presence.id)

    def _why_away(self, lines: Sequence[Line]) -> BaseException | None:
        """Why Temporal accepts nothing at all; None if it accepted a row, or only single rows failed."""
        failures = [line.failed[1] for line in lines if line.failed and isinstance(line.failed[1], TEMPORAL_ERRORS)]
        away: BaseException | None = next((each for each in failures if isinstance(each, TemporalUnavailable)), None)
        if away is None and failures and not any(line.delivered for line in lines):
            away = failures[0]
        self.pace.note_failures(len(failures), len(lines), away=away is not None)
        return away

    def _note_delivered(self, lines: Sequence[Line]) -> bool:
        """Count the rows, and choose the pause before the next batch. Returns False if the worker of this process has
        no free slot."""
        count = sum(len(line.delivered) for line in lines)
        self.delivered += count
        log_event(log, "delivered", count=count, of=sum(len(line.rows) for line in lines))
        self._measure(lines)
        self.every = self.pace.after(count, notified=self.presence.notified)
        if self.pace.starts.note([each for line in lines for each in line.eager]):
            return True
        self.every = FULL
        return False

    def _measure(self, lines: Sequence[Line]) -> None:
        if self._meter is None:
            return
        for line in lines:
            for metric, rows in (
                (names.RELAY_DELIVERED, line.delivered),
                (names.RELAY_REJECTED, [row for row, _ in line.rejected]),
                (names.RELAY_POSTPONED, [line.failed[0]] if line.failed else []),
            ):
                for row in rows:
                    metrics.count(self._meter, metric, kind=row["kind"])

    async def _divide(self, connection: Connection, claimed: Sequence[Row], error: Exception) -> None:
        """Divide a batch that the database or this code cannot process into its entities. Put off a single entity, so
        that it delays no other (invariant 8)."""
        if len(claimed) > 1:
            self.pace.divide(len(claimed))
            return
        lifecycle, entity_id = claimed[0]["lifecycle"], claimed[0]["id"]
        log.error("what waits for %s/%s can't be dealt with", lifecycle, entity_id, exc_info=error)
        await connection.execute(query("outbox_put_off"), lifecycle, entity_id, describe(error))


def _is_of_rows(error: Exception) -> bool:
    """Whether the content of rows may be the cause; else the servers, or the rights of this role, are."""
    if isinstance(error, asyncpg.PostgresError):
        return not (error.sqlstate or "").startswith(("08", "25", "40", "42", "53", "55", "57", "58"))
    return not isinstance(error, EXPECTED_ERRORS)


def relaying(pool: Pool, client: Client, app: App, settings: Settings, meter: MetricMeter | None) -> list[Service]:
    """A relay, after the service that registers the search attributes of the runs that it starts."""
    indexing = Indexing(client, settings)
    return [indexing, Relay(pool, client, app, settings, meter, indexing)]
