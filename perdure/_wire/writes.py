"""The one kind of write that a running lifecycle makes, and the answer to it.

A write moves the mirror, changes the fence, or does both in one commit. The workflow reads the database in no other
way, so its history holds everything that it learns from there.
"""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import Any, ClassVar, Protocol

from pydantic import BaseModel, ConfigDict

from perdure._text.shown import cut
from perdure._wire.terms import Terms
from perdure.contracts.outcomes import EffectStatus


class _Record(BaseModel):
    model_config: ClassVar[ConfigDict] = ConfigDict(extra="ignore", frozen=True)


class Gate(StrEnum):
    """The answer of the gate in `ident` to a write."""

    OPEN = "open"
    """Applied (or had been applied before: the reply was lost)."""
    LATE = "late"
    """A newer write is there already; nothing changed."""
    FINAL = "final"
    """The entity is final in this generation; nothing changed."""
    OTHER_GENERATION = "other_round"
    """The entity was restarted since; nothing changed."""
    OTHER_ENTITY = "other_entity"
    """The id is another entity's: a restore lost the start of the one that wrote, and the app has given its id again.
    Nothing changed."""
    UNSETTLED = "unsettled"
    """The entity did not end: an effect that its run does not know of is attempting or in doubt."""

    @property
    def over(self) -> bool:
        """Whether another run has overtaken the one that wrote, which must stop."""
        return self in (Gate.FINAL, Gate.OTHER_GENERATION, Gate.OTHER_ENTITY)


class Verdict(StrEnum):
    """The answer of the fence to an operation."""

    FRESH = "fresh"
    """On record now: go."""
    MINE = "mine"
    """On record by this very execution: go."""
    STANDING = "standing"
    """Another record stands: no call."""
    DIFFERENT = "different"
    """The record that stands was made for other input bytes: no call."""
    OVER = "over"
    """The time in which a doubtful attempt may be repeated has passed: no call."""
    STORED = "stored"
    """The outcome is on record now."""


class FenceOp(StrEnum):
    """An operation on an effect's record."""

    BEGIN = "begin"
    """Before the first byte: record the attempt, or return the record that stands."""
    NOTE = "note"
    """Store the data that a look-up will need."""
    OUTCOME = "outcome"
    """Record the outcome of an attempt or a look-up."""
    LOST = "lost"
    """The attempt's worker may be lost: a recorded attempt becomes in doubt, and one without a record cannot begin."""
    RESOLVE = "resolve"
    """Record the decision of a person or of the doubt policy, by compare-and-set on the token."""
    READ = "read"
    BAR = "bar"
    """Read, and keep every attempt that was ordered before from beginning."""


class Fence(_Record):
    """The fence part of a write.

    Attributes:
        token: new for each execution (compare-and-set).
        after: token of the attempt that may be taken over, for `BEGIN`.
        digest: SHA-256 of the input's bytes, in hex.
        in_flight: seconds from now until the attempt cannot be in flight any more, for `BEGIN`; for others at most.
        within: seconds after the first attempt in doubt during which the other side drops repeats. For `BEGIN`: no
            attempt begins later. For `OUTCOME`: a refusal also answers the earlier attempts. None = the other side
            does not drop repeats.
        since: time of the first order, in microseconds. If an effect was ordered before the newest epoch, the absence
            of a record does not mean that it was never attempted (invariant 11). None = not known.
        began: start of the first run of the chain that orders the effect, in microseconds.
        inline: whether a workflow task that was lost may have made an attempt that the run does not know.
    """

    op: FenceOp
    key: str
    effect: str
    token: str
    after: str | None = None
    digest: str | None = None
    in_flight: float = 0.0
    within: float | None = None
    status: EffectStatus | None = None
    receipt: Any = None
    lookup_hint: Any = None
    why: str | None = None
    by: str | None = None
    since: int | None = None
    began: int | None = None
    inline: bool = False


class Move(_Record):
    """The mirror part of a write: the lifecycle's present state.

    Attributes:
        acknowledged: ordinal of the last message that `snapshot` holds; 0 = none.
        memory: the data of the run beside the snapshot, see `carried.Remembered`; None = nothing.
        within: seconds that the state should last at most.
        handled_doubts: for a final state, keys of the effects that may be in doubt on record, because the run has
            dealt with them. None = the records of effects are not checked.
    """

    state: str
    final: bool = False
    attention: str | None = None
    why: str | None = None
    by: str | None = None
    snapshot: Any = None
    acknowledged: int = 0
    memory: Any = None
    within: float | None = None
    handled_doubts: list[str] | None = None


class Write(_Record):
    """One write of a lifecycle; see the module."""

    lifecycle: str
    id: str
    generation: int
    version: int
    workflow_id: str
    move: Move | None = None
    fence: Fence | None = None
    input: Any = None
    """Only in the first write of a lifecycle that was not started through Perdure."""
    born: datetime | None = None
    """When the entity's start was recorded, which distinguishes it from another one with its id. None = it was not
    started through Perdure."""

    def __str__(self) -> str:
        """A short text without payloads, for the Web UI."""
        parts = [f"mirror: {self.move.state}"] if self.move else []
        parts += [f"a person is needed: {cut(self.move.attention)}"] if self.move and self.move.attention else []
        parts += [f"fence: {self.fence.op} {self.fence.effect}"] if self.fence else []
        return ", ".join(parts)


class EffectView(_Record):
    """The fence's view of an effect, by the database's clock."""

    status: EffectStatus = EffectStatus.ABSENT
    token: str | None = None
    attempts: int = 0
    version: int = 0
    """Version of the newest write about the effect. An attempt that was ordered before it does not begin."""
    first_at: datetime | None = None
    since_first: float = 0.0
    """Seconds since the first attempt began."""
    in_doubt_for: float = 0.0
    """Seconds since the first attempt in doubt began; 0 = there is none."""
    in_flight: float = 0.0
    """Seconds for which the attempt can still be in flight; negative = seconds since that time."""
    receipt: Any = None
    lookup_hint: Any = None
    why: str | None = None
    too_large: int | None = None
    """Added by the worker: bytes of a recorded receipt that is too large for Temporal, and is only in the database."""

    @property
    def in_doubt(self) -> bool:
        """Whether the effect may have happened, and must be settled before its entity ends."""
        return self.status.unknown

    @property
    def record_lost(self) -> bool:
        """Whether the newest attempt stands for those of which the database may have lost the records."""
        return self.token is not None and self.token.startswith("lost ")


class Answer(_Record):
    """The store's answer to a write."""

    gate: Gate
    state: str | None = None
    """The standing state, if it is not the written one."""
    generation: int = 0
    """The standing generation."""
    version: int = 0
    verdict: Verdict | None = None
    effect: EffectView | None = None
    unsettled: dict[str, EffectView] | None = None
    """Effects that the run does not know of, by key, if the gate is `UNSETTLED`."""
    terms: dict[str, Terms] | None = None
    """Added by the worker, not by the store: terms of effects, by the names in their keys. They are those of the
    unsettled effect, and those of all effects in the answer to the first write."""


class Store(Protocol):
    """Keeps fence and mirror."""

    async def write(self, write: Write, *, patience: float) -> Answer:
        """Commit `write`, or return the record that stands instead.

        Args:
            patience: seconds to try while the database cannot be reached.

        Raises:
            DatabaseUnavailable: no answer in time. Whether the write was committed is unknown.
            UnstorableWrite: PostgreSQL cannot store the content.
            RefusedWrite: PostgreSQL refuses the write for another reason. It was not committed.
        """
        ...


def storable(text: str | None) -> str | None:
    """`text` as PostgreSQL can store it: no NUL, no lone surrogates, at most 2,000 characters."""
    return None if text is None else text.replace("\0", "\ufffd").encode("utf-8", "replace").decode()[:2000]
