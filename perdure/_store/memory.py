"""Fence and mirror in memory, for rehearsals: the same answers as PostgreSQL's, on a clock of its own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from perdure._wire.writes import Answer, EffectView, Fence, FenceOp, Gate, Move, Verdict, Write
from perdure.contracts.keys import Entity, Key
from perdure.contracts.outcomes import EffectStatus
from perdure.contracts.states import STARTING


@dataclass(slots=True)
class _Effect:
    view: EffectView
    digest: str | None
    """'' = the input is unknown."""
    deadline: datetime
    attempt_at: datetime
    earlier_doubt: datetime | None = None
    """Begin of the first attempt in doubt before the current one."""
    earlier_deadline: datetime | None = None
    """Until when one of those may be under way."""

    @property
    def in_doubt_since(self) -> datetime | None:
        """Begin of the first attempt in doubt."""
        if not self.view.in_doubt:
            return None
        return self.earlier_doubt or (self.view.first_at if self.view.attempts == 1 else self.attempt_at)

    def learn(self, version: int, **more: object) -> None:
        """Record the result of a write of that version."""
        self.view = self.view.model_copy(update=more | {"version": max(version, self.view.version)})


@dataclass(slots=True)
class _Entity:
    generation: int
    created_at: datetime
    epoch: int = 0
    version: int = 0
    state: str | None = None
    final: bool = False
    moves: list[Move] = field(default_factory=list)
    snapshot: object = None
    untouched: _Entity | None = None
    """The record before the first attempt."""

    def is_over(self, generation: int) -> bool:
        """Whether that generation has ended, or a later one has begun."""
        return (self.generation, self.final) >= (generation, True)

    def keep(self) -> None:
        """Store the state to which `restore` returns."""
        if self.untouched is None:
            self.untouched = replace(self, moves=[*self.moves])

    def restore(self) -> None:
        """Return to the state before the first attempt."""
        if (kept := self.untouched) is not None:
            self.version, self.state, self.final = kept.version, kept.state, kept.final
            self.moves, self.snapshot, self.untouched = [*kept.moves], kept.snapshot, None


_Entities = dict[tuple[str, str], _Entity]


class MemoryStore:
    """Keeps fence and mirror of a rehearsal; see `Store`.

    Args:
        clock: returns the time with a zone, on which deadlines are counted.
        on_late: called with the key if an outcome arrives after the run took the attempt or the look-up for lost.

    Attributes:
        epoch: when records were last lost, in microseconds; 0 = never.
        keeps_moments: whether to keep how it was after each write, for `lose_commits`.
    """

    def __init__(self, clock: Callable[[], datetime], on_late: Callable[[str], None] | None = None) -> None:
        self._clock = clock
        self._on_late = on_late
        self._entities: _Entities = {}
        self._effects: dict[str, _Effect] = {}
        self.epoch: int = 0
        self.keeps_moments: bool = False
        self._moments: list[tuple[_Entities, dict[str, _Effect]]] = [({}, {})]

    def start(self, entity: Entity, state: str) -> None:
        """The writes of `perdure.start` in the app's transaction."""
        self._entities[entity.lifecycle, entity.id] = _Entity(
            entity.generation, self._clock(), self.epoch, state=state, moves=[Move(state=state)]
        )

    def delivered(self, entity: Entity, state: str) -> None:
        """The write of a relay after it has delivered a start: the first state, without a transition."""
        known = self._entities[entity.lifecycle, entity.id]
        if known.generation == entity.generation and known.state == STARTING:
            known.state = state

    def lose_records(self) -> None:
        """Lose all attempts, as if the database were restored, or a standby without them took over."""
        self._go_back({}, {})

    def lose_commits(self, count: int) -> None:
        """Lose the last writes, as far as there are moments to go back to; see `keeps_moments`."""
        self._go_back(*self._moments[-count - 1 if count < len(self._moments) else 0])

    def _go_back(self, entities: _Entities, effects: dict[str, _Effect]) -> None:
        for key, entity in self._entities.items():
            if (kept := entities.get(key)) is not None and kept.generation == entity.generation:
                entity.untouched = kept
            entity.restore()
        self._effects = dict(effects)
        self._moments = [self._moment()]
        self.epoch = int(self._clock().timestamp() * 1_000_000)

    def _moment(self) -> tuple[_Entities, dict[str, _Effect]]:
        entities = {key: replace(each, moves=[*each.moves]) for key, each in self._entities.items()}
        return entities, {key: replace(each) for key, each in self._effects.items()}

    async def write(self, write: Write, *, patience: float) -> Answer:
        entity = self._entities.get((write.lifecycle, write.id))
        if entity is None:
            entity = _Entity(write.generation, write.born or self._clock(), self.epoch)
            self._entities[write.lifecycle, write.id] = entity
        gate = _gate(entity, write, restored=self.epoch > 0)
        if gate is Gate.OTHER_ENTITY:
            return Answer(gate=gate, generation=entity.generation, version=entity.version)
        if write.fence:
            entity.keep()
        verdict = self._work_fence(write, gate) if write.fence else None
        begins = write.fence is not None and write.fence.op is FenceOp.BEGIN
        unsettled = None
        if (
            write.move
            and gate is Gate.OPEN
            and write.version > entity.version
            and (not begins or verdict is Verdict.FRESH)
        ):
            effects = self._ending(write, write.move)
            newest = max((each.version for each in effects.values()), default=0)
            if unsettled := self._unsettled(write, write.move, effects):
                gate = Gate.UNSETTLED
            elif newest > write.version:
                gate, entity.version = Gate.LATE, newest
            else:
                _move(entity, write.version, write.move)
        if self.keeps_moments:
            self._moments.append(self._moment())
        return Answer(
            gate=gate,
            state=entity.state,
            generation=entity.generation,
            version=entity.version,
            verdict=verdict,
            effect=self.effect(write.fence.key) if write.fence else None,
            unsettled=unsettled,
        )

    def _unsettled(self, write: Write, move: Move, effects: dict[str, EffectView]) -> dict[str, EffectView] | None:
        """Those that the entity must not end with, by key."""
        handled, doubts = move.handled_doubts or (), {key: view for key, view in effects.items() if view.in_doubt}
        # A later run may have attempted it again.
        left = [key for key, view in doubts.items() if key not in handled or view.version > write.version]
        return {key: view for key in left if (view := self.effect(key))} or None

    def _ending(self, write: Write, move: Move) -> dict[str, EffectView]:
        """The effects that an end is compared with, by key: those of the entity in its generation. None for another
        move, or an end that is not compared."""
        if not move.final or move.handled_doubts is None:
            return {}
        own = Key.of(Entity(write.lifecycle, write.id, write.generation), "")
        return {key: each.view for key, each in self._effects.items() if key.startswith(own)}

    def moves(self, lifecycle: str, entity_id: str) -> list[Move]:
        """All transitions of an entity, oldest first."""
        entity = self._entities.get((lifecycle, entity_id))
        return list(entity.moves) if entity else []

    def state(self, entity: Entity) -> str:
        """The state of an entity in the mirror."""
        return self._entities[entity.lifecycle, entity.id].state or STARTING

    def version(self, entity: Entity) -> int:
        """The newest version of an entity in the mirror."""
        return self._entities[entity.lifecycle, entity.id].version

    def lost_since_its_start(self, entity: Entity) -> bool:
        """Whether the records of attempts were lost since an entity was started."""
        return self._entities[entity.lifecycle, entity.id].epoch < self.epoch

    def snapshot(self, lifecycle: str, entity_id: str) -> object:
        """The last snapshot of an entity, as JSON data."""
        entity = self._entities.get((lifecycle, entity_id))
        return entity.snapshot if entity else None

    def effect(self, key: str) -> EffectView | None:
        """The fence's present view of an effect."""
        known = self._effects.get(key)
        if known is None:
            return None
        now = self._clock()
        return known.view.model_copy(
            update={
                "since_first": (now - (known.view.first_at or now)).total_seconds(),
                "in_doubt_for": (now - (known.in_doubt_since or now)).total_seconds(),
                "in_flight": (known.deadline - now).total_seconds(),
            }
        )

    def effects(self) -> dict[str, EffectView]:
        """All effects on record, by key."""
        return {key: view for key in self._effects if (view := self.effect(key)) is not None}

    def _work_fence(self, write: Write, gate: Gate) -> Verdict | None:
        fence = write.fence
        assert fence is not None
        if fence.op is FenceOp.BEGIN:
            known = self._effects.get(fence.key)
            open_still = known is not None and known.view.in_doubt
            if known is not None and open_still and known.view.token == fence.token:
                return Verdict.MINE
            return self._begin(write, fence) if gate in (Gate.OPEN, Gate.LATE) else None
        entity = self._entities[write.lifecycle, write.id]
        doubtful = self._doubt_lost_record(write, fence)
        known = self._effects.get(fence.key)
        match fence.op:
            case FenceOp.OUTCOME | FenceOp.RESOLVE if known is not None:
                verdict, late = self._settle(write.version, fence, known)
                if late and self._on_late and not entity.final and write.generation == entity.generation:
                    self._on_late(fence.key)
                return verdict
            case FenceOp.NOTE if known is not None and known.view.token == fence.token:
                known.view = known.view.model_copy(update={"lookup_hint": fence.lookup_hint})
                return Verdict.STORED
            case FenceOp.LOST if known is not None:
                lost = {"status": EffectStatus.IN_DOUBT, "why": fence.why}
                known.learn(write.version, **(lost if known.view.status is EffectStatus.ATTEMPTING else {}))
            case FenceOp.BAR if known is not None:
                known.learn(write.version)
        not_made = fence.op is FenceOp.OUTCOME and fence.status is EffectStatus.NOT_DONE
        barred = not_made or fence.op in (FenceOp.LOST, FenceOp.BAR)
        if barred and known is None and not doubtful and not entity.is_over(write.generation):
            now = self._clock()
            view = EffectView(
                status=EffectStatus.NOT_DONE, token=fence.token, version=write.version, first_at=now, why=fence.why
            )
            self._effects[fence.key] = _Effect(view, "", now, now)
        return Verdict.STANDING

    def _doubt_lost_record(self, write: Write, fence: Fence) -> bool:
        """An effect that was ordered in an older epoch may have been done (invariant 11), if it has no record, or one
        of that epoch in which an attempt may be missing. After the end, only an attempt that was made leaves a doubt.
        """
        if not self.epoch or fence.since is None:
            return False
        entity = self._entities[write.lifecycle, write.id]
        made = fence.op is FenceOp.OUTCOME and fence.status is not EffectStatus.NOT_DONE
        if not made and entity.is_over(write.generation):
            return False
        begun_again = entity.epoch < self.epoch <= (fence.began or 0)
        if fence.since >= self.epoch and not begun_again:
            return False
        if (known := self._effects.get(fence.key)) is not None:
            return self._doubt_older_record(fence, known, begun_again)
        now = self._clock()
        first_at = min(_time_of(fence.since), now, entity.created_at if begun_again else now)
        view = EffectView(first_at=first_at, **self._lost(1))
        self._effects[fence.key] = _Effect(view, "", now + timedelta(seconds=fence.in_flight), now)
        return True

    def _doubt_older_record(self, fence: Fence, known: _Effect, begun_again: bool) -> bool:
        """As above, for an effect that has a record. A doubt of this kind has version 0: it is as old as the time at
        which it was recorded. A run that began after the epoch has its knowledge from that record."""
        now, old, token = self._clock(), known.view, fence.after if fence.op is FenceOp.BEGIN else fence.token
        recorded = old.version or int(known.attempt_at.timestamp() * 1_000_000)
        if recorded >= self.epoch or not (old.in_doubt or old.status is EffectStatus.NOT_DONE):
            return False
        is_known = bool(token) and old.token == token and not begun_again  # without a token, the run knows no attempt
        if not _may_be_missing(fence, known=is_known):
            return False
        known.earlier_doubt = known.in_doubt_since or min(_time_of(recorded), now)
        known.deadline, known.attempt_at = max(known.deadline, now + timedelta(seconds=fence.in_flight)), now
        known.earlier_deadline = None
        known.view = old.model_copy(update=self._lost(old.attempts + 1) | {"version": 0})
        return True

    def _lost(self, attempts: int) -> dict[str, Any]:
        """How a record shows an attempt that may be lost."""
        token = f"lost {self.epoch}"
        return {"status": EffectStatus.IN_DOUBT, "token": token, "attempts": attempts, "why": "no record of it"}

    def _begin(self, write: Write, fence: Fence) -> Verdict:
        if self._doubt_lost_record(write, fence):
            return Verdict.STANDING
        now = self._clock()
        deadline = now + timedelta(seconds=fence.in_flight)
        known = self._effects.get(fence.key)
        if known is None:
            view = EffectView(
                status=EffectStatus.ATTEMPTING, token=fence.token, attempts=1, version=write.version, first_at=now
            )
            self._effects[fence.key] = _Effect(view, fence.digest, deadline, now)
            return Verdict.FRESH
        settled = known.view.status in (EffectStatus.DONE, EffectStatus.REFUSED, EffectStatus.ABANDONED)
        if settled or write.version <= known.view.version:
            return Verdict.STANDING
        if known.digest not in ("", fence.digest):
            return Verdict.DIFFERENT
        doubt = known.in_doubt_since
        if doubt is not None and known.view.token != fence.after:
            return Verdict.STANDING
        if doubt is not None and fence.within is not None and (now - doubt).total_seconds() >= fence.within:
            return Verdict.OVER
        known.earlier_deadline = None if doubt is None else known.deadline
        known.deadline = deadline if doubt is None else max(known.deadline, deadline)
        known.digest, known.attempt_at, known.earlier_doubt = fence.digest, now, doubt
        known.learn(
            write.version,
            status=EffectStatus.ATTEMPTING,
            token=fence.token,
            attempts=known.view.attempts + 1,
            first_at=known.view.first_at if known.view.attempts else now,
            why=None,
        )
        return Verdict.FRESH

    def _settle(self, version: int, fence: Fence, known: _Effect) -> tuple[Verdict, bool]:
        """The verdict, and whether the outcome is late: its run may wait without it."""
        was, becomes, why = known.view.status, fence.status, fence.why
        current, outcome = known.view.token == fence.token, fence.op is FenceOp.OUTCOME
        if was is EffectStatus.DONE:
            return Verdict.STANDING, False
        if becomes is not EffectStatus.DONE and not (current and was.unknown):
            if outcome and becomes is was is EffectStatus.NOT_DONE:
                known.learn(version)  # an attempt without an answer may not begin later
            return Verdict.STANDING, False
        under_way = known.earlier_deadline is not None and known.attempt_at < known.earlier_deadline
        of_one = fence.within is None or under_way
        about_this_one = becomes is EffectStatus.NOT_DONE or (becomes is EffectStatus.REFUSED and of_one)
        if outcome and about_this_one and known.earlier_doubt is not None:
            becomes, why = EffectStatus.IN_DOUBT, "; ".join([*([why] if why else []), "an earlier attempt is in doubt"])
        if outcome and fence.by is None:
            late = not current or was is not EffectStatus.ATTEMPTING or known.view.version < self.epoch
        else:  # a look-up and the run itself know the newest write about the effect
            late = version <= known.view.version
        known.learn(
            version, status=becomes, why=why, **({"receipt": fence.receipt} if becomes is EffectStatus.DONE else {})
        )
        return Verdict.STORED, late and becomes is not EffectStatus.IN_DOUBT


def _may_be_missing(fence: Fence, *, known: bool) -> bool:
    """Whether an attempt may be missing in a record of before the epoch.

    Args:
        known: whether the run knows the newest one in it.
    """
    match fence.op:
        case FenceOp.LOST:
            return True
        case FenceOp.BEGIN | FenceOp.READ | FenceOp.BAR | FenceOp.RESOLVE:
            return fence.inline or not known
        case FenceOp.OUTCOME:
            return not known
        case _:
            return False


def _time_of(microseconds: int) -> datetime:
    return datetime.fromtimestamp(microseconds / 1_000_000, UTC)


def _gate(entity: _Entity, write: Write, *, restored: bool) -> Gate:
    same_state = write.move is not None and write.move.state == entity.state
    if write.generation != entity.generation:
        return Gate.OTHER_GENERATION
    if restored and write.born not in (None, entity.created_at):
        return Gate.OTHER_ENTITY
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
