"""The application's database in virtual time: fence and mirror in memory, and the ways in which it can fail."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any

from perdure._store.memory import MemoryStore
from perdure._store.record import Doubt, Record
from perdure._wire.carried import Remembered
from perdure._wire.writes import Answer, EffectView, Gate, Move, Verdict, Write
from perdure.contracts.keys import Entity, Key, slot_of
from perdure.contracts.outcomes import EffectStatus
from perdure.contracts.states import STARTING
from perdure.errors import DatabaseUnavailable
from perdure.testing.exploring.virtual_time import MOMENT

if TYPE_CHECKING:
    from perdure.testing.exploring.workers import Worker
    from perdure.testing.exploring.world import World

_ROUND_TRIP = 0.0005


@dataclass
class Row:
    """The commits of the application for one entity: its start, and its messages in order.

    Attributes:
        started: the start was delivered to Temporal.
        on_record: it is on record that it was: until then it is delivered again.
        delivered: how many messages were.
    """

    entity: Entity
    given: Any
    created_at: datetime
    messages: list[tuple[str, Any]] = field(default_factory=list)
    started: bool = False
    on_record: bool = False
    delivered: int = 0


class VirtualDatabase:
    """One database for all workers; see the module."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.store: MemoryStore = MemoryStore(lambda: world.loop.now, on_late=lambda key: self.on_late(key))
        self.on_late: Callable[[str], None] = lambda key: None
        self.rows: dict[str, Row] = {}
        self.away_until: float = 0.0
        self.loses_replies_until: float = 0.0
        self.locked_until: float = 0.0

    def connection(self, worker: Worker) -> Connection:
        """A store as one worker has it."""
        return Connection(self, worker)

    def start(self, entity: Entity, given: Any) -> Row:
        """Act as `perdure.start` in the application's transaction."""
        self.store.start(entity, STARTING)
        row = self.rows[entity.id] = Row(entity, given, self.world.loop.now)
        return row

    def moves(self, entity: Entity) -> list[Move]:
        """All that the mirror has shown of an entity."""
        return self.store.moves(entity.lifecycle, entity.id)

    def is_final(self, entity: Entity) -> bool:
        """Whether the mirror shows an end."""
        moves = self.moves(entity)
        return bool(moves) and moves[-1].final

    def attempted(self, entity: Entity) -> bool:
        """Whether the fence has a record of an effect of it."""
        return bool(self._effects(entity))

    def _effects(self, entity: Entity) -> dict[str, EffectView]:
        return {key: view for key, view in self.store.effects().items() if belongs(key, entity)}

    def record(self, row: Row) -> Record:
        """The record from which a run without a history continues, in the form of the query `record_of`."""
        entity, moves = row.entity, self.moves(row.entity)
        mine = self._effects(entity)
        again: dict[str, int] = {}
        for key in mine:
            effect, suffix, number = Key(key).performance
            if number:
                slot = slot_of(effect, suffix)
                again[slot] = max(again.get(slot, 0), number)
        doubts = [Doubt(key=key, view=view) for key, view in mine.items() if view.in_doubt]
        kept = next((move for move in reversed(moves) if move.snapshot is not None), None)
        memory = Remembered.model_validate((moves[-1].memory if moves else None) or {})
        done = [key for key, view in mine.items() if view.status is EffectStatus.DONE and key in memory.ended]
        return Record(
            at=self.world.loop.now,
            state=self.store.state(entity),
            since=row.created_at,
            created_at=row.created_at,
            snapshot=kept.snapshot if kept else None,
            acknowledged=kept.acknowledged if kept else 0,
            expects=len(row.messages),
            memory=memory,
            again=again,
            doubts=doubts,
            done=done,
        )


class Connection:
    """`Store` for one worker: it can lose the way to the database, and the replies."""

    def __init__(self, database: VirtualDatabase, worker: Worker) -> None:
        self._database, self._worker = database, worker

    async def write(self, write: Write, *, patience: float) -> Answer:
        """See `Store`."""
        answer: Answer | None = None
        try:
            answer = await self._write(write, patience)
            return answer
        finally:
            if write.move is not None and (answer is None or answer.gate is not Gate.OPEN):
                entity = Entity(write.lifecycle, write.id, write.generation)
                self._database.world.observed.skipped[entity].add(write.move.state)

    async def _write(self, write: Write, patience: float) -> Answer:
        database, world = self._database, self._database.world
        loop = world.loop
        until = loop.time() + patience
        await world.incidents.reach(self._worker, "before the commit")
        while (ready := max(database.away_until, database.locked_until)) > loop.time() + MOMENT:
            await self._pause(min(ready, until) - loop.time(), until, "no answer")
        answer = await database.store.write(write, patience=patience)
        fence, stored = write.fence, answer.verdict is Verdict.STORED
        if fence is not None and fence.by == "message" and stored and world.subject.confirms_at_random:
            world.observed.settled_by_person.add(fence.key)
        if write.move is not None and write.move.final and answer.gate is Gate.OPEN:
            entity = Entity(write.lifecycle, write.id, write.generation)
            effects = database._effects(entity)
            world.observed.on_record_at_end.setdefault(entity, {*effects})
            own = None if write.fence is None else write.fence.key  # an attempt of later may be under way as well
            newer = {key for key, view in effects.items() if view.version > write.version and key != own}
            world.observed.newer_than_end.setdefault(entity, newer)
        await asyncio.sleep(_ROUND_TRIP)
        if database.loses_replies_until > loop.time():
            world.cover("reply lost", write.fence.op.value if write.fence else "move")
            await self._pause(until - loop.time(), until, "the reply was lost")
        await world.incidents.reach(self._worker, "after the commit")
        return answer

    async def _pause(self, seconds: float, until: float, why: str) -> None:
        loop = self._database.world.loop
        await asyncio.sleep(max(seconds, 0.0))
        await self._worker.here()
        if loop.time() >= until - 0.0001:
            raise DatabaseUnavailable(f"not committed in time: {why}")


def belongs(key: str, entity: Entity) -> bool:
    """Whether a key is of an entity, in its generation."""
    lifecycle, identity, _ = key.split("/", 2)
    return lifecycle == entity.lifecycle and identity == entity.id + (
        f"~{entity.generation}" if entity.generation else ""
    )
