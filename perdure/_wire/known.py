"""What a run knows of one effect, as it decides from it and hands it to the next run."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import timedelta

from perdure._wire.terms import Terms
from perdure._wire.writes import EffectView
from perdure.contracts.outcomes import EffectStatus

NOW = timedelta(0)


@dataclass(frozen=True, slots=True)
class Known:
    """What the workflow knows of one effect.

    Attributes:
        effect: the fence's view of it, by the database's clock.
        age: how long ago that view was taken.
        read: this run has read the fence: before that, what is on record may be more than it knows.
        failures: attempts in a row that did not bring it about, for the back-off.
        spared: how many of them don't count towards `RetryPolicy.maximum_attempts`.
        unmade: the last attempt was not made, and nothing failed: neither count nor back-off has a part in it.
        last: what the last attempt ended in, where that was a definite no; an earlier one may be in doubt all the same.
        asked: look-ups made since it is in doubt.
        misses: how many of them were believable misses.
        mute: look-ups in a row that could not answer.
        retry_after: the pause that the other side asked for.
        different: its record was made for other input bytes.
        terms: what counts, where the history has it; else what the contract says today.
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
    mute: int = 0
    retry_after: timedelta | None = None
    different: bool = False
    terms: Terms | None = None

    @property
    def in_flight(self) -> timedelta:
        """How long the attempt can still be in flight; negative once it can't (invariant 5)."""
        return timedelta(seconds=self.effect.in_flight) - self.age

    @property
    def in_doubt_for(self) -> timedelta:
        """How long ago the first attempt was begun that is in doubt."""
        return timedelta(seconds=self.effect.in_doubt_for) + self.age

    def settled(self) -> Known:
        """The same effect with its doubts forgotten, for the attempts that follow."""
        return replace(self, asked=0, misses=0, mute=0)
