"""The facts about one effect from which a run decides, and which it passes to the next run."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any

from perdure._wire.terms import Terms
from perdure._wire.writes import EffectView
from perdure.contracts.outcomes import EffectStatus

NOW = timedelta(0)


@dataclass(frozen=True, slots=True)
class Known:
    """The facts about one effect in a workflow.

    Attributes:
        effect: the fence's view of the effect, by the database's clock.
        age: time since that view was read.
        read: whether this run has read the fence. Before that, the record may contain more.
        failures: attempts in a row that did not do the effect, for the back-off.
        spared: how many of them `RetryPolicy.maximum_attempts` does not count.
        unmade: whether the last attempt was not made although nothing failed. It affects neither count nor back-off.
        last: the end of the last attempt, if that was a definite no. An earlier attempt may be in doubt all the same.
        asked: look-ups since the effect is in doubt.
        misses: how many of them were misses that count.
        unanswered: look-ups in a row that could not answer.
        retry_after: the pause that the other side requested.
        different: whether the record was made for other input bytes.
        terms: the terms in the history, or else those of today's contract.
    """

    effect: EffectView = field(default_factory=EffectView)
    age: timedelta = NOW
    read: bool = False
    failures: int = 0
    spared: int = 0
    unmade: bool = False
    last: EffectStatus | None = None
    asked: int = 0
    misses: int = 0
    unanswered: int = 0
    retry_after: timedelta | None = None
    different: bool = False
    terms: Terms | None = None

    @property
    def in_flight(self) -> timedelta:
        """How long the attempt can still be in flight; negative once it cannot be (invariant 5)."""
        return timedelta(seconds=self.effect.in_flight) - self.age

    @property
    def in_doubt_for(self) -> timedelta:
        """Time since the first attempt that is in doubt began."""
        return timedelta(seconds=self.effect.in_doubt_for) + self.age

    def settled(self, **changes: Any) -> Known:
        """The same effect without its doubts, for the next attempts, and with other changes."""
        return replace(self, asked=0, misses=0, unanswered=0, **changes)
