"""Fence and mirror in memory, for rehearsals: the same answers as PostgreSQL's, on a clock of its own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from perdure.contracts.keys import Entity
from perdure.contracts.outcomes import Status
from perdure.store.writes import (
    Answer,
    EffectView,
    Fence,
    FenceOp,
    Gate,
    Move,
    Verdict,
    Write,
)


@dataclass(slots=True)
class _Effect:
    view: EffectView
    digest: str | None
    """'' = nobody knows what it was given."""
    deadline: datetime


@dataclass(slots=True)
class _Entity:
    round: int
    epoch: int = 0
    version: int = 0
    state: str | None = None
    final: bool = False
    moves: list[Move] = field(default_factory=list)
    snapshot: object = None


class MemoryStore:
    """Keeps fence and mirror of a rehearsal; see `Store`.

    Args:
        clock: the time, aware; deadlines are counted on it.
        on_late: called with the key when `done` comes after the attempt was given up for lost.
    """

    def __init__(self, clock: Callable[[], datetime], on_late: Callable[[str], None] | None = None) -> None:
        self._clock = clock
        self._on_late = on_late
        self._entities: dict[tuple[str, str], _Entity] = {}
        self._effects: dict[str, _Effect] = {}
        self._epoch = 0

    def start(self, entity: Entity, state: str) -> None:
        """What `perdure.start` does in the app's transaction."""
        self._entities[entity.lifecycle, entity.id] = _Entity(
            entity.round, epoch=self._epoch, state=state, moves=[Move(state=state)]
        )

    def lose_records(self) -> None:
        """As if the database were restored to before all attempts, or a standby without them took over."""
        self._effects.clear()
        self._epoch = int(self._clock().timestamp() * 1_000_000)

    async def write(self, write: Write, *, patience: float) -> Answer:
        entity = self._entities.setdefault((write.lifecycle, write.id), _Entity(write.round, epoch=self._epoch))
        gate = _gate(entity, write)
        verdict = self._work_fence(write, gate) if write.fence else None
        begins = write.fence is not None and write.fence.op is FenceOp.BEGIN
        if (
            write.move
            and gate is Gate.OPEN
            and write.version > entity.version
            and (not begins or verdict is Verdict.FRESH)
        ):
            _move(entity, write.version, write.move)
        return Answer(
            gate=gate,
            state=entity.state,
            round=entity.round,
            version=entity.version,
            verdict=verdict,
            effect=self.effect(write.fence.key) if write.fence else None,
        )

    def moves(self, lifecycle: str, entity_id: str) -> list[Move]:
        """All transitions of an entity, oldest first."""
        entity = self._entities.get((lifecycle, entity_id))
        return list(entity.moves) if entity else []

    def snapshot(self, lifecycle: str, entity_id: str) -> object:
        """The last snapshot of an entity, as JSON data."""
        entity = self._entities.get((lifecycle, entity_id))
        return entity.snapshot if entity else None

    def effect(self, key: str) -> EffectView | None:
        """What the fence knows of an effect now."""
        known = self._effects.get(key)
        if known is None:
            return None
        now = self._clock()
        first_at = known.view.first_at or now
        return known.view.model_copy(
            update={
                "since_first": (now - first_at).total_seconds(),
                "in_flight": (known.deadline - now).total_seconds(),
            }
        )

    def effects(self) -> dict[str, EffectView]:
        """All effects on record, by key."""
        return {key: view for key in self._effects if (view := self.effect(key)) is not None}

    def _work_fence(self, write: Write, gate: Gate) -> Verdict | None:
        fence = write.fence
        assert fence is not None
        if fence.op is not FenceOp.BEGIN or gate is Gate.OPEN:
            self._doubt_lost_record(fence, self._entities[write.lifecycle, write.id])
        known = self._effects.get(fence.key)
        match fence.op:
            case FenceOp.BEGIN:
                open_still = known is not None and known.view.status in (Status.ATTEMPTING, Status.IN_DOUBT)
                if known is not None and open_still and known.view.token == fence.token:
                    return Verdict.MINE
                return self._begin(fence) if gate is Gate.OPEN else None
            case FenceOp.OUTCOME | FenceOp.RESOLVE:
                return self._settle(fence)
            case FenceOp.NOTE if known is not None and known.view.token == fence.token:
                known.view = known.view.model_copy(update={"clue": fence.clue})
                return Verdict.STORED
            case FenceOp.LOST if known is not None and known.view.status is Status.ATTEMPTING:
                known.view = known.view.model_copy(update={"status": Status.IN_DOUBT, "why": fence.why})
        return Verdict.STANDING

    def _doubt_lost_record(self, fence: Fence, entity: _Entity) -> None:
        """What was ordered in an older epoch and has no record may have been done (invariant 11)."""
        if fence.key in self._effects or not self._epoch or fence.since is None:
            return
        begun_again = entity.epoch < self._epoch <= (fence.began or 0)
        if fence.since < self._epoch or begun_again:
            now = self._clock()
            view = EffectView(status=Status.IN_DOUBT, token="lost", attempts=1, first_at=now, why="no record of it")
            self._effects[fence.key] = _Effect(view, "", now + timedelta(seconds=fence.in_flight))

    def _begin(self, fence: Fence) -> Verdict:
        now = self._clock()
        deadline = now + timedelta(seconds=fence.in_flight)
        known = self._effects.get(fence.key)
        if known is None:
            view = EffectView(status=Status.ATTEMPTING, token=fence.token, attempts=1, first_at=now)
            self._effects[fence.key] = _Effect(view, fence.digest, deadline)
            return Verdict.FRESH
        if known.view.status in (Status.DONE, Status.REFUSED, Status.ABANDONED):
            return Verdict.STANDING
        if known.digest not in ("", fence.digest):
            return Verdict.DIFFERENT
        if known.view.status is Status.NOT_DONE or known.view.token == fence.after:
            update = {
                "status": Status.ATTEMPTING,
                "token": fence.token,
                "attempts": known.view.attempts + 1,
                "why": None,
            }
            known.view, known.digest, known.deadline = known.view.model_copy(update=update), fence.digest, deadline
            return Verdict.FRESH
        return Verdict.STANDING

    def _settle(self, fence: Fence) -> Verdict:
        known = self._effects.get(fence.key)
        if known is None or known.view.status is Status.DONE:
            return Verdict.STANDING
        current = known.view.token == fence.token
        if fence.status is Status.DONE:
            late = not current or known.view.status is not Status.ATTEMPTING
            update = {"status": Status.DONE, "receipt": fence.receipt, "why": fence.why}
            known.view = known.view.model_copy(update=update)
            if late and fence.by is None and self._on_late:
                self._on_late(fence.key)
            return Verdict.STORED
        if not current or known.view.status not in (Status.ATTEMPTING, Status.IN_DOUBT):
            return Verdict.STANDING
        known.view = known.view.model_copy(update={"status": fence.status, "why": fence.why})
        return Verdict.STORED


def _gate(entity: _Entity, write: Write) -> Gate:
    same_state = write.move is not None and write.move.state == entity.state
    if write.round != entity.round:
        return Gate.OTHER_ROUND
    if entity.final and not (write.version == entity.version and same_state):
        return Gate.FINAL
    if write.version < entity.version:
        return Gate.LATE
    if write.version == entity.version and write.move is not None and not same_state and not entity.final:
        return Gate.LATE
    return Gate.OPEN


def _move(entity: _Entity, version: int, move: Move) -> None:
    entity.version, entity.state, entity.final = version, move.state, move.final
    entity.moves.append(move)
    if move.snapshot is not None:
        entity.snapshot = move.snapshot
