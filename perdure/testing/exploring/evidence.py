"""What is known of an entity that has ended, from parts that are not under test. The judge reads it."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from perdure._wire.writes import EffectView, Move
from perdure.contracts.keys import Entity
from perdure.contracts.outcomes import Done, NotPerformed
from perdure.contracts.policies import DoubtPolicy
from perdure.contracts.states import States


@dataclass(frozen=True)
class PerformResult:
    """A result of `perform` for the author, with its time."""

    end: Done[Any] | NotPerformed
    at: float

    @property
    def in_doubt(self) -> bool:
        """Whether the author's result was that the effect may have happened."""
        return isinstance(self.end, NotPerformed) and self.end.in_doubt

    def __str__(self) -> str:
        return type(self.end).__name__ + (" in doubt" if self.in_doubt else "")


@dataclass
class Account:
    """The counts of the other side for one key.

    Attributes:
        policy: the doubt policy of the effect; None as long as it was not done.
        done_at: when it was done; more than once where a repeat was not dropped.
        done_by_calls_of: when the calls began that did it.
        calls: how many calls came.
    """

    policy: DoubtPolicy[Any, Any] | None = None
    done_at: list[float] = field(default_factory=list)
    done_by_calls_of: list[float] = field(default_factory=list)
    calls: int = 0


@dataclass(frozen=True)
class Sent:
    """A message whose commit is acknowledged to the application.

    Attributes:
        began, committed: when its transaction did.
        generation: the generation of the entity that it was sent to.
        fits: whether a build has a handler for it.
        delayed: whether its sender requested a later delivery.
    """

    text: str
    began: float
    committed: float
    generation: int = 0
    fits: bool = True
    delayed: bool = False

    def comes_before(self, other: Sent) -> bool:
        """Whether the entity receives it before `other`, in any case."""
        in_order = self.fits and not self.delayed and not other.delayed
        return in_order and self.committed < other.began


@dataclass(frozen=True)
class Evidence:
    """See the module.

    Attributes:
        results: what `perform` returned, by key, oldest first; more than once where a run was started from its top. It
            counts where its workflow task was committed, or has put the end of the entity on record.
        accounts: what the other side counted, by key.
        effects: what the fence has on record, by key.
        moves: what the mirror has shown, oldest first.
        states: what the lifecycle declares.
        skipped: states that the mirror may not have shown: their write came after that of a later state, or not at all.
        settled_by_person: keys of effects that a person has resolved, or a message has confirmed.
        records_lost: whether the database has lost the records of attempts.
        on_record_at_end: keys of the effects that the fence had on record when their generation ended.
        newer_than_end: keys of the effects that it had on record by a later order than that of the end.
        histories_lost: whether Temporal has lost the history of a run.
        tasks_lost: whether a workflow task was lost.
        performed_again: keys that the author's code has performed more than once, or will again, because the end was
            lost with its history; None = not known.
        workers_lost: whether a worker was killed, frozen or cut off.
        told_in_doubt: keys of effects of which the author's code was told that they are in doubt, before a state was
            ordered whose snapshot leads a later run past them. If a run continues from the record after that task was
            lost, no other run comes back to them.
        sent: messages to it.
        received: texts of those that its last snapshot holds, in their order; None = it keeps none.
        acknowledged: texts of updates that were answered, and that no snapshot has to lose.
        updated: texts of updates that its last snapshot holds.
        secret: personal data in its input, which may stand in payloads only; None = there is none to be looked for.
    """

    entity: Entity
    results: Mapping[str, Sequence[PerformResult]]
    accounts: Mapping[str, Account]
    effects: Mapping[str, EffectView]
    moves: Sequence[Move]
    states: States[Any]
    skipped: Collection[str] = ()
    settled_by_person: Collection[str] = ()
    records_lost: bool = False
    on_record_at_end: Collection[str] = ()
    newer_than_end: Collection[str] = ()
    histories_lost: bool = False
    tasks_lost: bool = False
    performed_again: Collection[str] | None = None
    workers_lost: bool = False
    told_in_doubt: Collection[str] = ()
    sent: Sequence[Sent] = ()
    received: Sequence[str] | None = None
    acknowledged: Collection[str] = ()
    updated: Sequence[str] = ()
    secret: str | None = None

    def account(self, key: str) -> Account:
        """The counts of the other side for a key."""
        return self.accounts.get(key, Account())
