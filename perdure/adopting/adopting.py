"""Adopting: lifecycles are started for rows of work that were there before perdure. Safe to stop and to run again.

A row that an older job may have begun is not started blindly: its effect is put on record as in doubt, in the same
transaction, so that its doubt policy has the first word.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import asyncpg

from perdure.adopting.apart import apart
from perdure.adopting.existing_work import ExistingWork, Place, Row
from perdure.app import input_json, name_of
from perdure.contracts.effects import Effect
from perdure.contracts.keys import Entity, Key
from perdure.contracts.policies import Dedupe
from perdure.errors import DeclarationError, InvalidEntity, InvalidInput
from perdure.schema import Connection
from perdure.workflow.lifecycle import Lifecycle

_ADOPT = """select x.id, perdure.adopt($1, x.id, x.input, $2, x.effect, x.key, x.since, $3) as answer
    from jsonb_to_recordset($4::jsonb) x (id text, input jsonb, effect text, key text, since timestamptz)"""


@dataclass(slots=True)
class Adopted:
    """What came of it so far.

    Attributes:
        started: lifecycles that were started.
        in_doubt: how many of them with an effect that may have happened.
        bad: rows that can't be adopted as they are.
    """

    started: int = 0
    in_doubt: int = 0
    bad: int = 0

    @property
    def seen(self) -> int:
        """All rows."""
        return self.started + self.bad


@dataclass(frozen=True, slots=True)
class Doubt:
    """What a row in one of the statuses `processing` may have done already.

    Attributes:
        processing: statuses of rows that an older job may have begun.
        effect: the effect that it would have been.
        suffix: that it is performed with.
    """

    processing: tuple[str, ...]
    effect: Effect[Any, Any]
    suffix: str | None = None

    @classmethod
    def of(cls, lifecycle: type[Lifecycle[Any, Any]], processing: Sequence[str], slot: str | None) -> Doubt:
        """That of a lifecycle.

        Args:
            slot: name of the effect, with `/suffix` where it is performed with one; None = the lifecycle's only one.

        Raises:
            DeclarationError: it has no such effect, or several where none is named.
        """
        name, _, suffix = (slot or "").partition("/")
        fitting = [each for each in lifecycle.effects if not slot or name in each.names]
        if len(fitting) != 1:
            names = ", ".join(each.name for each in lifecycle.effects) or "none"
            asked = f"has no effect {name!r}" if slot else "does not have exactly one effect"
            raise DeclarationError(f"{name_of(lifecycle)} {asked}: give --effect one of these: {names}")
        return cls(tuple(processing), fitting[0], suffix or None)

    def record(self, entity: Entity, row: Row) -> dict[str, Any]:
        """What goes on record of the effect of a row."""
        if row.status not in self.processing:
            return {}
        # Whatever the other side keeps of the older job's call, it keeps it under no key of ours: no window is open.
        since = None if isinstance(self.effect.doubt, Dedupe) else row.since
        slot = f"{self.effect.name}/{self.suffix}" if self.suffix else self.effect.name
        return {"effect": slot, "key": Key.of(entity, self.effect.identity, self.suffix), "since": since}


@dataclass(slots=True)
class Adoption:
    """Adopts the rows of a table.

    Attributes:
        db: a connection of its own.
        lifecycle: which is started for each row.
        work: the rows.
        doubt: what rows may have done already; None = no status stands for that.
        priority: of their starts, 1 (first) to 5.
        batch: rows in one transaction.
        rate: rows per second at most; None = no limit.
        refuse: is told of each bad row: its id, and why.
        progress: is told after each batch.
    """

    db: Connection
    lifecycle: type[Lifecycle[Any, Any]]
    work: ExistingWork
    doubt: Doubt | None
    priority: int
    batch: int
    rate: float | None
    refuse: Callable[[str, str], None]
    progress: Callable[[Adopted], None]
    dry_run: bool = False
    done: Adopted = field(default_factory=Adopted)
    _bad: set[str | None] = field(default_factory=set)
    _begun: float = 0.0

    async def run(self) -> Adopted:
        """Adopt until a look through all rows finds none that has no lifecycle yet; the app may go on inserting."""
        self._begun = time.monotonic()
        while True:
            before = self.done.seen
            await self._look_through()
            if self.dry_run or self.done.seen == before:
                return self.done

    async def _look_through(self) -> None:
        size = min(self.batch, max(1, int(self.rate))) if self.rate else self.batch
        after: Place | None = None
        while places := await self.work.places(self.db, after, size):
            after = places[-1]
            await self._adopt([each for each in places if each.id not in self._bad])
            self.progress(self.done)
            if after.key is None:  # these sort last
                return
            if self.rate:
                await asyncio.sleep(self._begun + self.done.started / self.rate - time.monotonic())

    async def _adopt(self, places: Sequence[Place]) -> None:
        rows = await apart(places, lambda some: self.work.rows(self.db, some), lambda place: self._refuse(place.id))
        if any(each.key is None for each in places):
            self._refuse(None)(InvalidEntity("its id is null"))
        orders = []
        for row in rows:
            try:
                orders.append(self._order(row))
            except (InvalidEntity, InvalidInput) as error:
                self._refuse(row.id)(error)
        if not self.dry_run:
            answers = await apart(orders, self._commit, lambda order: self._refuse(order["id"]))
            started = {row["id"] for row in answers if row["answer"] == "started"}
            orders = [order for order in orders if order["id"] in started]
        self.done.started += len(orders)
        self.done.in_doubt += sum("key" in order for order in orders)

    def _refuse(self, row_id: str | None) -> Callable[[Exception], None]:
        def note(why: Exception) -> None:
            self._bad.add(row_id)
            self.done.bad += 1
            self.refuse(str(row_id), str(why))

        return note

    def _order(self, row: Row) -> dict[str, Any]:
        entity = Entity(name_of(self.lifecycle), row.id)
        given = input_json(self.lifecycle, None if row.input is None else json.loads(row.input))
        return {"id": entity.id, "input": given} | (self.doubt.record(entity, row) if self.doubt else {})

    async def _commit(self, orders: Sequence[dict[str, Any]]) -> list[asyncpg.Record]:
        """One transaction for all."""
        timeout = self.doubt.effect.timeout if self.doubt else timedelta(0)
        return await self.db.fetch(_ADOPT, name_of(self.lifecycle), self.priority, timeout, json.dumps(list(orders)))
