"""Doubt policies, which are part of an effect's contract: what to do if the outcome of an attempt is unknown.

Choose by the abilities of the other side: it drops repeats (`Dedupe`), it can be asked (`AskFirst`), twice is
harmless (`Repeat`), or a person must decide (`Escalate`).
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Generic, TypeAlias, TypeVar

from perdure.contracts.argument_types import check_types
from perdure.contracts.spans import check_spans
from perdure.errors import DeclarationError

if TYPE_CHECKING:
    from perdure.contracts.effects import Lookup

In = TypeVar("In")
Out = TypeVar("Out")


@dataclass(frozen=True, slots=True)
class Repeat:
    """Make another attempt: the effect happens at least once.

    Example:
        >>> Dedupe(window=timedelta(hours=24), otherwise=Repeat()).otherwise
        Repeat()
    """


@dataclass(frozen=True, slots=True)
class Escalate:
    """Wait, visibly, until a person resolves the doubt as done, not done or abandoned.

    Example:
        >>> Dedupe(window=timedelta(hours=24), otherwise=Escalate()).window.days
        1
    """


@dataclass(frozen=True, slots=True)
class Dedupe:
    """Send again with the same key and the same bytes, because the other side drops repeats.

    An attempt begins only if its `timeout` plus `margin` ends within the window, by the database's clock.

    Args:
        window: how long the other side remembers a key, from the first attempt that may have reached it.
        margin: part of the window that is not used.
        otherwise: the policy after the window, or when `RetryPolicy.maximum_attempts` is used up.

    Example:
        >>> Dedupe(window=timedelta(hours=24)).otherwise
        Escalate()
    """

    window: timedelta
    margin: timedelta = timedelta(minutes=1)
    otherwise: Repeat | Escalate = Escalate()

    def __post_init__(self) -> None:
        check_spans("Dedupe", window=self.window, margin=self.margin)
        check_types("Dedupe", Repeat | Escalate, otherwise=self.otherwise)


@dataclass(frozen=True, slots=True)
class AskFirst(Generic[In, Out]):
    """Ask the other side by a look-up before anything is sent again.

    A hit counts at once, a miss only after the attempt's deadline plus `visibility_delay`, by the database's clock.

    Args:
        lookup: the contract of the look-up, with the effect's input and receipt types.
        visibility_delay: how long after an attempt's deadline the other side may still be recording it. Choose it
            longer than a process may be frozen.
        misses: how many misses in a row that count mean *not done*. Perdure then sends again.
        tries: how often in a row the look-up may fail to answer before `otherwise` applies. None = it continues to
            ask. Use that for effects that expire: an outage of the other side then leaves no thousands to a person.
        every: pause after the first question. It doubles each time, up to 16 times this value, with `tries=None` 256
            times.
        otherwise: the policy if the look-up gives no answer.

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
        check_spans("AskFirst", visibility_delay=self.visibility_delay, every=self.every)
        check_types("AskFirst", int, misses=self.misses)
        check_types("AskFirst", int | None, tries=self.tries)
        check_types("AskFirst", Repeat | Escalate, otherwise=self.otherwise)
        if self.misses < 1 or (self.tries is not None and self.tries < 1):
            raise DeclarationError(f"AskFirst(misses={self.misses}, tries={self.tries}): both must be at least 1")


DoubtPolicy: TypeAlias = Dedupe | AskFirst[In, Out] | Repeat | Escalate


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """When to repeat an attempt that certainly did nothing: capped exponential back-off with jitter.

    Args:
        initial_interval: pause after the first attempt.
        backoff_coefficient: factor from each pause to the next.
        maximum_interval: the longest pause.
        jitter: share of the pause, 0 to 1, by which it is shortened or lengthened at random.
        maximum_attempts: number of failed attempts in a row after which the effect ends `GaveUp`; None = no limit. An
            attempt whose body was never called does not count.

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
        check_spans("RetryPolicy", initial_interval=self.initial_interval, maximum_interval=self.maximum_interval)
        check_types("RetryPolicy", float | int, backoff_coefficient=self.backoff_coefficient, jitter=self.jitter)
        check_types("RetryPolicy", int | None, maximum_attempts=self.maximum_attempts)
        if not timedelta(0) < self.initial_interval <= self.maximum_interval or not self.backoff_coefficient >= 1:
            raise DeclarationError(
                f"{self}: needs 0 < initial_interval <= maximum_interval and backoff_coefficient >= 1"
            )
        if not 0 <= self.jitter <= 1 or (self.maximum_attempts is not None and self.maximum_attempts < 1):
            raise DeclarationError(f"{self}: needs 0 <= jitter <= 1 and maximum_attempts >= 1")

    def pause(self, failures: int, luck: float) -> timedelta:
        """The pause after `failures` failures in a row; `luck` in [-1, 1] is its place in the jitter."""
        try:
            pause = min(
                self.initial_interval.total_seconds() * self.backoff_coefficient ** max(failures - 1, 0),
                self.maximum_interval.total_seconds(),
            )
        except OverflowError:
            pause = self.maximum_interval.total_seconds()
        return timedelta(seconds=pause * (1 + self.jitter * luck))
