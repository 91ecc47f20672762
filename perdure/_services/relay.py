"""The relay: delivers the rows of the outbox to Temporal. Any number may run; each entity goes to one of them.

A batch is claimed, delivered and deleted in one transaction, and every delivery can be repeated: after a
crash at any instant a row is delivered again, and never lost.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import os
import random
import secrets
import socket
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from math import inf

import asyncpg
from temporalio.client import Client
from temporalio.common import MetricMeter
from temporalio.service import RPCError

from perdure import _faults as faults
from perdure._pulse import Pulse
from perdure._services.delivery import Delivery, NotForUs, NotYet, Row, Undeliverable, Unreadable
from perdure._services.indexing import Indexing
from perdure._services.listener import Listener
from perdure._services.room import Room
from perdure._services.service import EXPECTED_ERRORS, Service
from perdure._store.postgres import Pool
from perdure._store.schema import Connection
from perdure._store.sql import queries, shared
from perdure._text.privacy import describe, reason
from perdure._workflow.messages import signals
from perdure.app import App
from perdure.errors import TemporalUnavailable
from perdure.logs import log_event
from perdure.settings import Settings
from perdure.telemetry import metrics, names

query = queries(__name__)

log = logging.getLogger("perdure.relay")

BATCH = 50
"""Entities in one batch, and rows of each."""
FEW = 20
"""Rows per second from which on rows wait for each other."""
CALM = 1.0
"""Seconds without many rows, after which commits notify a relay again."""
SHARED = 10
"""Number of rows that then share a transaction, unless they would wait longer than `LONGEST_WAIT`."""
LONGEST_WAIT = 0.2
FULL = 0.01
"""Seconds until the next batch, while the worker of this process has no room for more lifecycles."""
LONGEST_LINE = 4.0
"""Seconds after which no further row of an entity is begun in one transaction. PostgreSQL ends a transaction that is
idle for 15 s, and a call to Temporal takes 10 s at most."""

_TEMPORAL_ERRORS = (TemporalUnavailable, RPCError, TimeoutError, OSError)
POLLS = 8
"""Number of polls in each `relay_poll_interval` while commits do not notify the relay."""
SEEN_EVERY = 5.0
"""Seconds between two notes that this relay runs. A relay without a note for a minute counts as gone."""
LOOK_EVERY = 60.0
"""Seconds between two looks for rows with names that no relay has."""
PATIENCE = timedelta(hours=1)
"""A row is rejected if it has been due, and no relay has had its lifecycle or signal, for this time. Only a relay that
has run for this time rejects it."""
_REST_OF_REJECTED = timedelta(seconds=30)


@dataclass(slots=True)
class Line:
    """The waiting rows of one entity, in order, and the results of their deliveries."""

    rows: list[Row]
    delivered: list[Row] = field(default_factory=list)
    rejected: list[tuple[Row, Undeliverable]] = field(default_factory=list)
    eager: list[bool] = field(default_factory=list)
    """For each delivered start, whether the worker of this process got the first task."""
    declined: tuple[Row, NotForUs | Unreadable] | None = None
    """The first row that this relay leaves to other relays."""
    failed: tuple[Row, BaseException] | None = None
    held_until: datetime | None = None
    """Time of the next look at the first undelivered row; None = it is due."""

    @property
    def unordered(self) -> list[Row]:
        """Due messages without a place in the order."""
        return [
            row
            for row in self.rows
            if row["kind"] == "message" and row["ordinal"] is None and not row["waits"] and not row["over"]
        ]


class Relay(Service):
    """Delivers the rows of the outbox.

    Args:
        pool: the app's database.
        client: the client of Temporal. If a worker of the same process uses it too, workflows start eagerly.
        app: the app with the lifecycles.
        settings: scope, task queue, pace.
        meter: counts the results of the deliveries.
        indexing: knows which search attributes a run may have; None = none.
    """

    def __init__(
        self,
        pool: Pool,
        client: Client,
        app: App,
        settings: Settings,
        meter: MetricMeter | None = None,
        indexing: Indexing | None = None,
    ) -> None:
        super().__init__("relay", settings.relay_poll_interval)
        self._pool = pool
        self._delivery = Delivery(client, app, settings, indexing)
        self.id = f"{socket.gethostname()}-{os.getpid()}-{secrets.token_hex(4)}"
        self._lifecycles = list(app.lifecycles)
        self._first = {name: each.declared.initial.value for name, each in app.lifecycles.items()}
        self._signals = [f"{name}.{signal}" for name, each in app.lifecycles.items() for signal in signals(each)]
        self._seen_at = self._looked_at = -inf
        self._interval = settings.relay_poll_interval
        self._listener = Listener(pool, settings.database_url, self.nudge)
        self._notified = False
        self._busy_until = 0.0
        self._meter = meter
        self.delivered = 0
        """Number of delivered rows."""
        self._delivered_at = 0.0
        self._alone = 0
        """Number of batches of one entity each, after a batch that could not be recorded."""
        self._room = Room(BATCH)
        self._window = BATCH
        """Entities in the next batch: one while Temporal is away, and then twice as many each time, so that the backlog
        does not overload Temporal."""

    async def once(self) -> bool:
        """Deliver a batch. Returns True if more may be due."""
        async with self._pool.acquire(timeout=5) as connection:
            await self._be_seen(connection, 2 * SEEN_EVERY)
            await self._choose_notice(connection)
            more = await self._deliver_due(connection)
            await self._be_seen(connection)  # after the delivery, which does not wait for this
            return more

    async def _deliver_due(self, connection: Connection) -> bool:
        if not await connection.fetchval(query("due"), self._lifecycles):
            self.every = self._idle
            return False
        claimed: list[Row] = []
        try:
            return await self._deliver_batch(connection, claimed)
        except Exception as error:
            if not claimed or not _is_of_rows(error):
                raise
            await self._part(connection, claimed, error)
            return True

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
        """Delete the note that this relay runs."""
        self._seen_at = -inf
        async with asyncio.timeout(1), self._pool.acquire() as connection:
            await connection.execute(query("relay_gone"), self.id)

    async def _be_seen(self, connection: Connection, after: float = SEEN_EVERY) -> None:
        """Note that this relay runs, and its lifecycles, if the last note is `after` seconds old. At times, look for
        rows with names that no relay has."""
        now = time.monotonic()
        if now < self._seen_at + after:
            return
        await connection.execute(query("relay_seen"), self.id, self._lifecycles, self._signals)
        self._seen_at = now
        self._listener.received = 0
        if now < self._looked_at + LOOK_EVERY:
            return
        self._looked_at = now
        for row in await connection.fetch(shared("unknown_names")):
            about = {"rows": row["waiting"], "since": row["since"]}
            log_event(log, f"rows wait: no running worker has {row['name']}", level=logging.WARNING, **about)
        await connection.execute(query("look_after_declined"))
        rejected = await connection.fetchval(query("reject_unknown"), self.id, PATIENCE)
        if rejected:
            log_event(log, "rejected rows that name what no relay has", level=logging.ERROR, rows=rejected)

    async def _choose_notice(self, connection: Connection) -> None:
        """Let commits notify this relay while they are few. The next poll finds the rows of earlier commits."""
        many = self._listener.received > FEW * SEEN_EVERY
        if many:
            self._busy_until = time.monotonic() + CALM
        wanted = self._listener.listens and not many and (self._notified or time.monotonic() > self._busy_until)
        if wanted != self._notified:
            self._listener.received = 0
            await connection.execute(query("ask_notice"), self.id, wanted)
            self._notified = wanted

    @property
    def _idle(self) -> float:
        """Seconds between two polls of an empty outbox."""
        return self._interval if self._notified else self._interval / POLLS

    async def _part(self, connection: Connection, claimed: Sequence[Row], error: Exception) -> None:
        """Split a batch that the database or this code cannot process into its entities. Put off a single entity, so
        that it delays no other (invariant 8)."""
        if len(claimed) > 1:
            self._alone = 2 * len(claimed)  # others may become due meanwhile
            return
        lifecycle, entity_id = claimed[0]["lifecycle"], claimed[0]["id"]
        log.error("what waits for %s/%s can't be dealt with", lifecycle, entity_id, exc_info=error)
        await connection.execute(query("outbox_put_off"), lifecycle, entity_id, describe(error))

    async def _deliver_batch(self, connection: Connection, claimed: list[Row]) -> bool:
        most = 1 if self._alone else min(self._window, self._room.starts)
        self._alone = max(self._alone - 1, 0)
        async with connection.transaction():
            claimed += await self._claim(connection, most)
            if not claimed:  # another relay delivers them now
                return False
            if full := len(claimed) == most:
                await connection.execute(query("plan_anew"))
            lines = await _lines(connection, claimed)
            await asyncio.gather(*(self._follow(line) for line in lines))
            away = self._is_away(lines)
            await self._put_on_record(connection, lines, away)
            ordered = await _order(connection, lines)
            for line in lines:
                for row in line.delivered:
                    faults.point("after the delivery of a", row["kind"])
            faults.point("before the commit of the outbox")
        faults.point("after the commit of the outbox")
        count = sum(len(line.delivered) for line in lines)
        self.delivered += count
        self._say(lines)
        self._keep_pace(count)
        if not self._room.note([each for line in lines for each in line.eager]):
            self.every, full = FULL, False
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
        return await connection.fetch(query("claim"), most, known, self.id)

    async def _follow(self, line: Line) -> None:
        """Deliver the due rows in order, until one cannot be delivered, or until the time is over."""
        until = time.monotonic() + LONGEST_LINE
        for row in line.rows:
            if time.monotonic() > until:
                return
            if row["over"] and row["kind"] != "wake":
                # Finished or restarted since (invariant 7). A wake is delivered nevertheless: a stale worker may have
                # made the end, and the waiting run must receive it.
                line.delivered.append(row)
            elif (row["kind"] == "message" and row["ordinal"] is None) or not await self._attempted(line, row):
                return

    async def _attempted(self, line: Line, row: Row) -> bool:
        """Deliver one row. Returns False if the rows behind it have to wait."""
        cancel = None
        if row["kind"] == "start":
            if line.unordered and not line.delivered:
                return False  # first they get their places: one may be a cancel, which goes with the start
            cancel = next((each for each in line.rows if each["says"] == "cancel" and each["ordinal"]), None)
        overruled = cancel is not None and row["wanted_later"] and self._delivery.can_cancel(row)
        if row["waits"] and not overruled:
            line.held_until = row["not_before"]
            return False
        faults.point("before the delivery of a", row["kind"])
        try:
            eager = await self._delivery.deliver(row, cancel)
        except (NotForUs, Unreadable) as why:
            line.declined = row, why
            return False
        except Undeliverable as why:
            line.rejected.append((row, why))
            if row["kind"] != "start":
                return True
            line.held_until = datetime.now(UTC) + _REST_OF_REJECTED
            return False
        except Exception as error:  # any failure must not delay another entity (invariant 8)
            line.failed = row, error
            return False
        line.delivered.append(row)
        if eager is not None:
            line.eager.append(eager)
        return True

    def _is_away(self, lines: Sequence[Line]) -> BaseException | None:
        """Why Temporal accepts nothing at all; None if it accepted a row, or only single rows failed."""
        failures = [line.failed[1] for line in lines if line.failed and isinstance(line.failed[1], _TEMPORAL_ERRORS)]
        for_all = next((each for each in failures if isinstance(each, TemporalUnavailable)), None)
        if for_all or (failures and not any(row for line in lines for row in line.delivered)):
            self._window = 1
            return for_all or failures[0]
        self._window = max(1, self._window // 2) if 2 * len(failures) > len(lines) else min(BATCH, self._window * 2)
        return None

    async def _put_on_record(self, connection: Connection, lines: Sequence[Line], away: BaseException | None) -> None:
        """Record the results. An undelivered row is tried again later, each row by itself.

        While Temporal is away, no row is the cause. Only the first row is put off, so that the next probe is another
        row: Temporal may be unable to accept this one.
        """
        delivered = [row for line in lines for row in line.delivered]
        if delivered:
            columns = _columns(delivered, "lifecycle", "id", "seq")
            await connection.execute(query("delivered"), *columns, [self._first_state(row) for row in delivered])
        if over := [row for row in delivered if row["over"] and row["kind"] == "message"]:
            await connection.execute(query("too_late"), *_columns(over, "lifecycle", "id", "generation", "message_id"))
        moved = [
            line.rows[0]
            for line in lines
            if (line.delivered or line.rejected) and any(row["declined"] for row in line.rows)
        ]
        if moved:
            await connection.execute(query("reopen"), *_columns(moved, "lifecycle", "id"))
        postponed = False
        for line in lines:
            if line.declined is not None:
                await self._decline(connection, line)
            for row, why in line.rejected:
                await self._reject(connection, row, why)
            if line.failed is not None and not (away and postponed):
                await self._postpone(connection, *line.failed)
                postponed = True
            elif line.held_until is not None:
                first = line.rows[0]
                await connection.execute(query("hold"), first["lifecycle"], first["id"], line.held_until)

    def _first_state(self, row: Row) -> str | None:
        """The state of an entity after its delivery; None for a row that started nothing."""
        return self._first.get(row["lifecycle"]) if row["kind"] == "start" and not row["over"] else None

    async def _decline(self, connection: Connection, line: Line) -> None:
        """Leave the row to relays with newer code. If no relay is left that may read it, it is rejected."""
        assert line.declined is not None
        row, why = line.declined
        key = row["lifecycle"], row["id"], row["seq"]
        alone = await connection.fetchval(query("decline"), *key, self.id)
        if alone and isinstance(why, Unreadable):
            line.rejected.append((row, why))
            await connection.execute(query("reopen"), [row["lifecycle"]], [row["id"]])
            if row["kind"] == "start":
                line.held_until = datetime.now(UTC) + _REST_OF_REJECTED

    async def _postpone(self, connection: Connection, row: Row, error: BaseException) -> None:
        if not isinstance(error, (NotYet, *_TEMPORAL_ERRORS)):
            log.error("delivering %s/%s failed", row["lifecycle"], row["id"], exc_info=error)
        why = error.message[:500] if isinstance(error, RPCError) else reason(error)[:500]
        await connection.execute(query("postpone"), row["lifecycle"], row["id"], row["seq"], why)

    async def _reject(self, connection: Connection, row: Row, why: Undeliverable) -> None:
        log_event(log, "rejected", level=logging.ERROR, lifecycle=row["lifecycle"], id=row["id"], why=str(why))
        await connection.execute(query("reject"), row["lifecycle"], row["id"], row["seq"], str(why))
        attention = f"rejected: {why}" if row["kind"] == "start" else f"a message was rejected: {why}"
        await connection.execute(
            query("want_attention"),
            row["lifecycle"],
            row["id"],
            attention,
        )

    def _keep_pace(self, count: int) -> None:
        """Choose the pace. The relay looks often for few rows, so that each is delivered soon; many rows wait for each
        other and share a transaction."""
        now = time.monotonic()
        rate = count / max(now - self._delivered_at, 0.001)
        if rate >= FEW:
            self._busy_until = max(self._busy_until, now + CALM)
            self.every = max(self._idle, min(SHARED / rate, LONGEST_WAIT))
        else:
            self.every = self._idle
        self._delivered_at = now

    def _say(self, lines: Sequence[Line]) -> None:
        delivered = sum(len(line.delivered) for line in lines)
        log_event(log, "delivered", count=delivered, of=sum(len(line.rows) for line in lines))
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


async def _lines(connection: Connection, entities: Sequence[Row]) -> list[Line]:
    """The waiting rows of each entity."""
    rows = await connection.fetch(query("lines"), *_columns(entities, "lifecycle", "id"), BATCH)
    return [Line(list(line)) for _, line in itertools.groupby(rows, key=lambda row: (row["lifecycle"], row["id"]))]


def _is_of_rows(error: Exception) -> bool:
    """Whether the content of rows may be the cause; else the servers, or the rights of this role, are."""
    if isinstance(error, asyncpg.PostgresError):
        return not (error.sqlstate or "").startswith(("08", "25", "40", "42", "53", "55", "57", "58"))
    return not isinstance(error, EXPECTED_ERRORS)


async def _order(connection: Connection, lines: Sequence[Line]) -> bool:
    """Record the order of messages before their delivery, so that a repeated delivery keeps the order in spite of new
    commits. Returns True if there were messages without a place."""
    rows = [row for line in lines for row in line.unordered]
    if not rows:
        return False
    await connection.execute(query("wait_for_disk"))
    await connection.execute(query("order"), *_columns(rows, "lifecycle", "id", "generation", "message_id"))
    faults.point("after the messages got their places")
    return True


def _columns(rows: Sequence[Row], *wanted: str) -> list[list[object]]:
    return [[row[name] for row in rows] for name in wanted]


def relaying(pool: Pool, client: Client, app: App, settings: Settings, meter: MetricMeter | None) -> list[Service]:
    """A relay, behind what knows the search attributes of the runs that it starts."""
    indexing = Indexing(client, settings)
    return [indexing, Relay(pool, client, app, settings, meter, indexing)]
