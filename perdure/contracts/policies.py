"""What to do when nobody knows whether an effect happened: part of the effect's contract.

Choose from what the other side can do: it drops repeats (`Dedupe`), it can be asked (`AskFirst`), twice is
harmless (`Repeat`), or a person must say (`Escalate`).
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Generic, TypeAlias, TypeVar

from perdure.contracts.spans import check_spans
from perdure.errors import DeclarationError

if TYPE_CHECKING:
    from perdure.contracts.effects import Lookup

In = TypeVar("In")
Out = TypeVar("Out")


@dataclass(frozen=True, slots=True)
class Repeat:
    """At least once, on purpose: a doubtful attempt is made again.

    Example:
        >>> Dedupe(window=timedelta(hours=24), otherwise=Repeat()).otherwise
        Repeat()
    """


@dataclass(frozen=True, slots=True)
class Escalate:
    """The lifecycle parks, visibly, until somebody resolves the doubt as done, not done or abandoned.

    Example:
        >>> Dedupe(window=timedelta(hours=24), otherwise=Escalate()).window.days
        1
    """


@dataclass(frozen=True, slots=True)
class Dedupe:
    """The other side drops a repeat of the same key: send again, same key, same bytes.

    Args:
        window: for how long it remembers a key, counted from the first attempt that may have reached it.
        margin: how much of the window is kept unused.
        otherwise: what to do once the window is over, or `RetryPolicy.maximum_attempts` is used up.

    Example:
        >>> Dedupe(window=timedelta(hours=24)).otherwise
        Escalate()
    """

    window: timedelta
    margin: timedelta = timedelta(minutes=1)
    otherwise: Repeat | Escalate = Escalate()

    def __post_init__(self) -> None:
        check_spans("Dedupe", window=self.window, margin=self.margin)


@dataclass(frozen=True, slots=True)
class AskFirst(Generic[In, Out]):
    """The other side can be asked. A hit is believed at once; a miss only when nothing can be in flight.

    Args:
        lookup: the look-up's contract, with the effect's own input and receipt types.
        visibility_delay: how long after the attempt's deadline the other side may still be recording it.
        misses: how many believable misses in a row mean *not done*.
        tries: how often in a row the look-up may fail to answer before `otherwise` applies. None = it goes on asking,
            and nobody is called: for what expires, so that an outage of the other side parks no thousands.
        every: time between two look-ups; it doubles each time, up to 16 times this, with `tries=None` 256 times.
        otherwise: what to do when the look-up gives no answer.

    Example:
        >>> from perdure import Lookup
        >>> find = Lookup[dict[str, str], str]("find-payment")
        >>> AskFirst(find, visibility_delay=timedelta(seconds=30)).misses
        1
    """

    lookup: Lookup[In, Out]
    visibility_delay: timedelta
    misses: int = 1
    tries: int | None = 5
    every: timedelta = timedelta(seconds=1)
    otherwise: Repeat | Escalate = Escalate()

    def __post_init__(self) -> None:
        if self.misses < 1 or (self.tries is not None and self.tries < 1):
            raise DeclarationError(f"Lookup(misses={self.misses}, tries={self.tries}): both must be at least 1")
        check_spans("AskFirst", visibility_delay=self.visibility_delay, every=self.every)


DoubtPolicy: TypeAlias = Dedupe | AskFirst[In, Out] | Repeat | Escalate


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """When an attempt that certainly did nothing is made again: capped exponential back-off with jitter.

    Args:
        initial_interval: pause after the first attempt.
        backoff_coefficient: by how much each pause is longer than the one before.
        maximum_interval: the longest pause.
        jitter: share of the pause, 0 to 1, by which it is shortened or lengthened at random.
        maximum_attempts: after how many failed attempts in a row a definite no is the last one, and the effect ends
            `GaveUp`; None = no limit. An attempt whose body was never called does not count.

    Example:
        >>> policy = RetryPolicy(initial_interval=timedelta(seconds=2), maximum_interval=timedelta(seconds=10))
        >>> [policy.pause(failures, luck=0).total_seconds() for failures in (1, 2, 3, 4)]
        [2.0, 4.0, 8.0, 10.0]
    """

    initial_interval: timedelta = timedelta(seconds=1)
    backoff_coefficient: float = 2.0
    maximum_interval: timedelta = timedelta(minutes=5)
    jitter: float = 0.2
    maximum_attempts: int | None = None

    def __post_init__(self) -> None:
        if (
            self.initial_interval <= timedelta(0)
            or self.maximum_interval < self.initial_interval
            or self.backoff_coefficient < 1
        ):
            raise DeclarationError(
                f"{self}: needs 0 < initial_interval <= maximum_interval and backoff_coefficient >= 1"
            )
        if not 0 <= self.jitter <= 1 or (self.maximum_attempts is not None and self.maximum_attempts < 1):
            raise DeclarationError(f"{self}: needs 0 <= jitter <= 1 and maximum_attempts >= 1")
        check_spans("RetryPolicy", maximum_interval=self.maximum_interval)

    def pause(self, failures: int, luck: float) -> timedelta:
        """How long to wait after `failures` failures in a row; `luck` in [-1, 1] places it in the jitter."""
        try:
            pause = min(
                self.initial_interval.total_seconds() * self.backoff_coefficient ** max(failures - 1, 0),
                self.maximum_interval.total_seconds(),
            )
        except OverflowError:
            pause = self.maximum_interval.total_seconds()
        return timedelta(seconds=pause * (1 + self.jitter * luck))
