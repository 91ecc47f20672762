"""How an attempt ends, and how an effect ends. `in doubt` is a state here, never a log line.

A body returns its receipt, or raises `NotDone` or `Refused`; whatever else leaves it means *in doubt*.
`Lifecycle.perform` returns `Done` or a kind of `NotPerformed`.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from typing import Generic, TypeVar

from perdure.errors import PerdureError

Out = TypeVar("Out", covariant=True)


class EffectStatus(StrEnum):
    """What the fence knows of one effect.

    Example:
        >>> EffectStatus.IN_DOUBT.unknown, EffectStatus.DONE.unknown
        (True, False)
    """

    ABSENT = "absent"
    """No record: no attempt was ever begun."""
    ATTEMPTING = "attempting"
    NOT_DONE = "not_done"
    """It certainly did not happen."""
    IN_DOUBT = "in_doubt"
    """It may have happened."""
    DONE = "done"
    REFUSED = "refused"
    """A definitive no."""
    ABANDONED = "abandoned"
    """A person gave it up."""

    @property
    def unknown(self) -> bool:
        """Whether nobody knows if it happened: it is in doubt, or an attempt may be under way."""
        return self in (EffectStatus.ATTEMPTING, EffectStatus.IN_DOUBT)


class NotDone(PerdureError):
    """Raised by a body: the effect certainly did not happen (refused connection, 429, 503, exit status 75).

    Args:
        why: one line for the operator; no personal data.
        retry_after: how long the other side asks to be left alone.
        counts: False = nobody was asked, as where no place was free; it is none of those that
            `RetryPolicy.maximum_attempts` allows.

    Example:
        >>> error = NotDone("503", retry_after=timedelta(seconds=30))
        >>> error.retry_after.total_seconds()
        30.0
    """

    def __init__(self, why: str, *, retry_after: timedelta | None = None, counts: bool = True) -> None:
        super().__init__(why)
        self.why = why
        self.retry_after = retry_after
        self.counts = counts


class Refused(PerdureError):
    """Raised by a body: the other side said a definitive no.

    Args:
        why: one line for the operator; no personal data.

    Example:
        >>> Refused("card declined").why
        'card declined'
    """

    def __init__(self, why: str) -> None:
        super().__init__(why)
        self.why = why


class InDoubt(PerdureError):
    """Raised by a body that wants to say *why* it can't know; any other exception means the same.

    Args:
        why: one line for the operator; no personal data.

    Example:
        >>> try:
        ...     raise InDoubt("the connection broke after the request was sent")
        ... except InDoubt as error:
        ...     print(error.why)
        the connection broke after the request was sent
    """

    def __init__(self, why: str) -> None:
        super().__init__(why)
        self.why = why


@dataclass(frozen=True, slots=True)
class Done(Generic[Out]):
    """The effect happened. `receipt` is what the other side gave for it.

    Example:
        >>> match Done("r-17"):
        ...     case Done(receipt):
        ...         print(receipt)
        r-17
    """

    receipt: Out


@dataclass(frozen=True, slots=True)
class NotPerformed:
    """The effect came to an end without being done; the subclass says how, `why` in a sentence.

    `in_doubt` is True where it may have happened all the same.

    Example:
        >>> match Expired("too late"):
        ...     case NotPerformed(why, in_doubt):
        ...         print(why, in_doubt)
        too late False
    """

    why: str
    in_doubt: bool = False


@dataclass(frozen=True, slots=True)
class WasRefused(NotPerformed):
    """The other side said a definitive no. The next `perform` of it has a new key.

    `in_doubt` is True where an earlier attempt may have happened: a no to one attempt is none to another, unless the
    other side drops repeats.

    Example:
        >>> isinstance(WasRefused("card declined"), NotPerformed)
        True
    """


@dataclass(frozen=True, slots=True)
class Expired(NotPerformed):
    """It was of no use any more: `expires_at` went by.

    Example:
        >>> Expired("the shop has closed", in_doubt=True).in_doubt
        True
    """


@dataclass(frozen=True, slots=True)
class Abandoned(NotPerformed):
    """A person gave it up. Only `send_again` sends it anew.

    Example:
        >>> Abandoned("ann: the customer has called").why
        'ann: the customer has called'
    """


@dataclass(frozen=True, slots=True)
class GaveUp(NotPerformed):
    """As many attempts as `RetryPolicy.maximum_attempts` allows have failed, the last with a definite no.

    `in_doubt` is True where an earlier one may have happened.

    Example:
        >>> GaveUp("5 attempts failed, the last one: 503").in_doubt
        False
    """


@dataclass(frozen=True, slots=True)
class DifferentInput(NotPerformed):
    """An earlier attempt under the same key carried other bytes. Only `send_again` sends the new ones.

    Example:
        >>> match DifferentInput("the amount has changed"):
        ...     case NotPerformed(why):
        ...         print(why)
        the amount has changed
    """
