"""What to do when nobody knows whether an effect happened: part of the effect's contract.

Choose from what the other side can do: it drops repeats (`Dedupe`), it can be asked (`Lookup`), twice is
harmless (`Repeat`), or a person must say (`Escalate`).
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Generic, TypeAlias, TypeVar

from perdure.contracts.spans import check_spans
from perdure.errors import DeclarationError

if TYPE_CHECKING:
    from perdure.contracts.effects import Find

In = TypeVar("In")
Out = TypeVar("Out")


@dataclass(frozen=True, slots=True)
class Repeat:
    """At least once, on purpose: a doubtful attempt is made again."""


@dataclass(frozen=True, slots=True)
class Escalate:
    """The lifecycle parks, visibly, until somebody resolves the doubt as done, not done or abandoned."""


@dataclass(frozen=True, slots=True)
class Dedupe:
    """The other side drops a repeat of the same key: send again, same key, same bytes.

    Args:
        window: for how long it remembers a key, counted from the first attempt that may have reached it.
        margin: how much of the window is kept unused.
        otherwise: what to do once the window is over, or `Retry.maximum` is used up.
    """

    window: timedelta
    margin: timedelta = timedelta(minutes=1)
    otherwise: Repeat | Escalate = Escalate()

    def __post_init__(self) -> None:
        check_spans("Dedupe", window=self.window, margin=self.margin)


@dataclass(frozen=True, slots=True)
class Lookup(Generic[In, Out]):
    """The other side can be asked. A hit is believed at once; a miss only when nothing can be in flight.

    Args:
        find: the look-up's contract, with the effect's own input and receipt types.
        settle: how long after the attempt's deadline the other side may still be recording it.
        misses: how many believable misses in a row mean *not done*.
        tries: how often in a row the look-up may fail to answer before `otherwise` applies. None = it goes on asking,
            and nobody is called: for what expires, so that an outage of the other side parks no thousands.
        every: time between two look-ups; it doubles each time, up to 16 times this, with `tries=None` 256 times.
        otherwise: what to do when the look-up can't answer.
    """

    find: Find[In, Out]
    settle: timedelta
    misses: int = 1
    tries: int | None = 5
    every: timedelta = timedelta(seconds=1)
    otherwise: Repeat | Escalate = Escalate()

    def __post_init__(self) -> None:
        if self.misses < 1 or (self.tries is not None and self.tries < 1):
            raise DeclarationError(f"Lookup(misses={self.misses}, tries={self.tries}): both must be at least 1")
        check_spans("Lookup", settle=self.settle, every=self.every)


DoubtPolicy: TypeAlias = Dedupe | Lookup[In, Out] | Repeat | Escalate


@dataclass(frozen=True, slots=True)
class Retry:
    """When an attempt that certainly did nothing is made again: capped exponential back-off with jitter.

    Args:
        initial: pause after the first attempt.
        factor: by how much each pause is longer than the one before.
        cap: the longest pause.
        jitter: share of the pause, 0 to 1, by which it is shortened or lengthened at random.
        maximum: after how many failed attempts in a row a definite no is the last one, and the effect ends `GaveUp`;
            None = no limit. An attempt whose body was never called does not count.
    """

    initial: timedelta = timedelta(seconds=1)
    factor: float = 2.0
    cap: timedelta = timedelta(minutes=5)
    jitter: float = 0.2
    maximum: int | None = None

    def __post_init__(self) -> None:
        if self.initial <= timedelta(0) or self.cap < self.initial or self.factor < 1:
            raise DeclarationError(f"{self}: needs 0 < initial <= cap and factor >= 1")
        if not 0 <= self.jitter <= 1 or (self.maximum is not None and self.maximum < 1):
            raise DeclarationError(f"{self}: needs 0 <= jitter <= 1 and maximum >= 1")
        check_spans("Retry", cap=self.cap)

    def pause(self, failures: int, luck: float) -> timedelta:
        """How long to wait after `failures` failures in a row; `luck` in [-1, 1] places it in the jitter."""
        try:
            pause = min(self.initial.total_seconds() * self.factor ** max(failures - 1, 0), self.cap.total_seconds())
        except OverflowError:
            pause = self.cap.total_seconds()
        return timedelta(seconds=pause * (1 + self.jitter * luck))
