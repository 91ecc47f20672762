"""The one kind of write that a running lifecycle makes, and the answer to it.

A write moves the mirror, works the fence, or both in one commit. The workflow never reads the database in
any other way, so all that it learns from there stands in its history.
"""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import Any, ClassVar, Protocol

from pydantic import BaseModel, ConfigDict

from perdure._wire.terms import Terms
from perdure.contracts.outcomes import EffectStatus


class _Record(BaseModel):
    model_config: ClassVar[ConfigDict] = ConfigDict(extra="ignore", frozen=True)


class Gate(StrEnum):
    """What the gate in `ident` said to a write."""

    OPEN = "open"
    """Applied (or had been applied before: the reply was lost)."""
    LATE = "late"
    """A newer write is there already; nothing changed."""
    FINAL = "final"
    """The entity is final in this generation; nothing changed."""
    OTHER_ROUND = "other_round"
    """The entity was restarted since; nothing changed."""
    UNSETTLED = "unsettled"
    """It would end while an effect is attempting or in doubt that its run does not know of; it did not move."""

    @property
    def over(self) -> bool:
        """Whether the run that wrote is no longer the one that counts: nothing of it is to go on."""
        return self in (Gate.FINAL, Gate.OTHER_ROUND)


class Verdict(StrEnum):
    """What the fence said to an operation."""

    FRESH = "fresh"
    """On record now: go."""
    MINE = "mine"
    """On record by this very execution: go."""
    STANDING = "standing"
    """Somebody's record stands: no call."""
    DIFFERENT = "different"
    """The record that stands was made for other input bytes: no call."""
    OVER = "over"
    """The time in which a doubtful attempt may be repeated has passed: no call."""
    STORED = "stored"
    """The outcome is on record now."""


class FenceOp(StrEnum):
    """What to do with an effect's record."""

    BEGIN = "begin"
    """Before the first byte: put the attempt on record, or learn what stands."""
    NOTE = "note"
    """Keep what a look-up will need."""
    OUTCOME = "outcome"
    """What an attempt or a look-up found."""
    LOST = "lost"
    """The attempt's worker may be lost: an attempt on record becomes in doubt; one that is not can't begin any more."""
    RESOLVE = "resolve"
    """A person's, or the doubt policy's, word; by compare-and-set on the token."""
    READ = "read"


class Fence(_Record):
    """The fence part of a write.

    Attributes:
        token: this execution's own, made anew inside each (compare-and-set).
        after: token of the attempt that may be taken over, for `BEGIN`.
        digest: SHA-256 of the input's bytes, in hex.
        in_flight: seconds from now until the attempt can't be in flight any more, for `BEGIN`; for others at most.
        within: for so many seconds after the first attempt in doubt was begun the other side drops repeats. For
            `BEGIN`: later, no further attempt begins. For `OUTCOME`: a refusal answers the earlier attempts as well.
            None = it does not drop them.
        since: when it was first ordered, in microseconds; no record of one that is older than the newest epoch does
            not mean that it was never touched (invariant 11). None = nobody says.
        began: when the run that orders it, or the first that it goes on from, was started; in microseconds.
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


class Move(_Record):
    """The mirror part of a write: the state that the lifecycle is in now.

    Attributes:
        heard: ordinal of the last message that `snapshot` holds; 0 where there is none.
        memory: what the run remembers beside the snapshot, see `workflow.carried.Remembered`; None = nothing.
        within: seconds that the state should last at most.
        told: for a final state, keys of the effects that may be in doubt on record, since the run has dealt with them.
            None = the record of its effects is not looked at.
    """

    state: str
    final: bool = False
    attention: str | None = None
    why: str | None = None
    by: str | None = None
    snapshot: Any = None
    heard: int = 0
    memory: Any = None
    within: float | None = None
    told: list[str] | None = None


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
    """Only in the first write of a lifecycle that was not started through perdure."""

    def __str__(self) -> str:
        """In a few words, without payloads, as the Web UI shows it."""
        parts = [f"mirror: {self.move.state}"] if self.move else []
        parts += [f"fence: {self.fence.op} {self.fence.effect}"] if self.fence else []
        return ", ".join(parts)


class EffectView(_Record):
    """What the fence knows of an effect, by the database's clock."""

    status: EffectStatus = EffectStatus.ABSENT
    token: str | None = None
    attempts: int = 0
    version: int = 0
    """Of the newest write about it: an attempt that was ordered before that does not begin."""
    first_at: datetime | None = None
    since_first: float = 0.0
    """Seconds since the first attempt was begun."""
    in_doubt_for: float = 0.0
    """Seconds since the first attempt was begun of which nobody knows whether it happened; 0 where there is none."""
    in_flight: float = 0.0
    """Seconds for which the attempt can still be in flight; negative = seconds since it can't."""
    receipt: Any = None
    lookup_hint: Any = None
    why: str | None = None
    too_large: int | None = None
    """Filled in by the worker: bytes of a receipt that is on record and too large for Temporal; it stands in the
    database alone then."""

    @property
    def in_doubt(self) -> bool:
        """Whether it may have happened: it is to be settled before its entity ends."""
        return self.status.unknown


class Answer(_Record):
    """The store's answer to a write."""

    gate: Gate
    state: str | None = None
    """The standing state, where it is not the one that was written."""
    generation: int = 0
    """The standing generation."""
    version: int = 0
    verdict: Verdict | None = None
    effect: EffectView | None = None
    unsettled: dict[str, EffectView] | None = None
    """What the run does not know of, by key, where the gate is `UNSETTLED`."""
    terms: dict[str, Terms] | None = None
    """Filled in by the worker, not by the store: of the effects that this is about, by the names that their keys
    carry: the one that is not settled; all of them, in the answer to the first write."""


class Store(Protocol):
    """Keeps fence and mirror."""

    async def write(self, write: Write, *, patience: float) -> Answer:
        """Commit `write`, or say what stands instead.

        Args:
            patience: seconds to keep trying while the database can't be reached.

        Raises:
            DatabaseUnavailable: no answer in time; whether it was committed is unknown.
            UnstorableWrite: PostgreSQL can't store what is in it.
            RefusedWrite: PostgreSQL refuses it for another reason; it was not committed.
        """
        ...


def storable(text: str | None) -> str | None:
    """`text` as PostgreSQL can store it: no NUL, no lone surrogates, at most 2,000 characters."""
    return None if text is None else text.replace("\0", "\ufffd").encode("utf-8", "replace").decode()[:2000]
