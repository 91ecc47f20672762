"""The waiting rows of one entity: delivers them in order, up to the first one that cannot be delivered."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import groupby

from perdure import _faults as faults
from perdure._services.delivery import Delivery, NotForUs, Row, TooSlow, Undeliverable, Unreadable
from perdure._services.pace import BATCH
from perdure._store.schema import Connection
from perdure._store.sql import queries

query = queries(__name__)

LONGEST_LINE = 4.0
"""Seconds after which no further row of an entity is begun in one transaction. PostgreSQL ends a transaction that is
idle for 15 s."""
LONGEST_ROW = 10.5
"""Seconds for one row. Its delivery may take several calls to Temporal, each of up to 10 s."""


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
    held: bool = False
    """Whether the rows that are not delivered wait, until `held_until`; if that is None, for half a minute."""
    held_until: datetime | None = None

    @property
    def unordered(self) -> list[Row]:
        """Messages without a place in the order. One that waits gets its place as well: it may have been put off with
        the rows before it, and a message that is committed later must not get ahead of it."""
        return [row for row in self.rows if _is_without_place(row) and not row["over"]]

    def reject(self, row: Row, why: Undeliverable) -> None:
        """Note that the row cannot be delivered. Without their start, the rows behind it wait for a while."""
        self.rejected.append((row, why))
        self.held = self.held or row["kind"] == "start"

    async def deliver(self, delivery: Delivery) -> None:
        """Deliver the due rows in order, until one cannot be delivered, or until the time is over."""
        until = time.monotonic() + LONGEST_LINE
        for row in self.rows:
            if time.monotonic() > until:
                return
            if row["over"] and row["kind"] != "wake":
                # Finished or restarted since (invariant 7). A wake is delivered nevertheless: a stale worker may have
                # made the end, and the waiting run must receive it.
                self.delivered.append(row)
            elif _is_without_place(row) or not await self._attempted(row, delivery):
                return

    async def _attempted(self, row: Row, delivery: Delivery) -> bool:
        """Deliver one row. Returns False if the rows behind it have to wait."""
        cancel, is_start = None, bool(row["kind"] == "start")
        if is_start:
            if self.unordered and not self.delivered:
                return False  # first they get their places: one may be a cancel, which goes with the start
            cancels = (each for each in self.rows if each["message_kind"] == "cancel" and not each["over"])
            cancel = next((each for each in cancels if each["ordinal"]), None)
        overruled = cancel is not None and row["due_later"] and delivery.can_cancel(row)
        if row["waits"] and not overruled:
            self.held, self.held_until = True, row["not_before"]
            return False
        faults.point("before the delivery of a", row["kind"])
        try:
            eager = await self._delivered_in_time(row, cancel, delivery)
        except (NotForUs, Unreadable) as why:
            self.declined = row, why
            return False
        except Undeliverable as why:
            self.reject(row, why)
            return not is_start
        except Exception as error:  # any failure must not delay another entity (invariant 8)
            self.failed = row, error
            return False
        self.delivered.append(row)
        if eager is not None:
            self.eager.append(eager)
        return True

    async def _delivered_in_time(self, row: Row, cancel: Row | None, delivery: Delivery) -> bool | None:
        limit = asyncio.timeout(LONGEST_ROW)
        try:
            async with limit:
                return await delivery.deliver(row, cancel)
        except TimeoutError as error:
            if not limit.expired():
                raise
            raise TooSlow(f"Temporal took longer than {LONGEST_ROW:g} s for it") from error


def _is_without_place(row: Row) -> bool:
    return row["kind"] == "message" and row["ordinal"] is None and not row["orphan"]


async def read_lines(connection: Connection, entities: Sequence[Row]) -> list[Line]:
    """The waiting rows of each entity."""
    rows = await connection.fetch(query("lines"), *columns(entities, "lifecycle", "id"), BATCH)
    return [Line(list(line)) for _, line in groupby(rows, key=lambda row: (row["lifecycle"], row["id"]))]


async def order(connection: Connection, lines: Sequence[Line]) -> bool:
    """Record the order of messages before their delivery, so that a repeated delivery keeps the order in spite of new
    commits. Returns True if there were messages without a place."""
    rows = [row for line in lines for row in line.unordered]
    if not rows:
        return False
    await connection.execute(query("wait_for_disk"))
    await connection.execute(query("order"), *columns(rows, "lifecycle", "id", "generation", "message_id"))
    faults.point("after the messages got their places")
    return True


def columns(rows: Sequence[Row], *names: str) -> list[list[object]]:
    """The values of each of these columns."""
    return [[row[name] for row in rows] for name in names]
