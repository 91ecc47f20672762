"""How an attempt ends, and how an effect ends.

A body returns its receipt, or raises `NotDone` or `Refused`. Any other exception means *in doubt*.
`Lifecycle.perform` returns `Done` or a kind of `NotPerformed`.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from typing import Generic, NoReturn, TypeVar

from perdure.contracts.spans import LONGEST
from perdure.errors import DeclarationError, PerdureError

Out = TypeVar("Out", covariant=True)


class EffectStatus(StrEnum):
    """The state of one effect in the fence.

    Example:
        >>> EffectStatus.IN_DOUBT.unknown, EffectStatus.DONE.unknown
        (True, False)
    """

    ABSENT = "absent"
    """No record: no attempt ever began."""
    ATTEMPTING = "attempting"
    NOT_DONE = "not_done"
    """It certainly did not happen."""
    IN_DOUBT = "in_doubt"
    """It may have happened."""
    DONE = "done"
    REFUSED = "refused"
    """The other side definitely refused."""
    ABANDONED = "abandoned"
    """A person gave it up."""

    @property
    def unknown(self) -> bool:
        """Whether the effect may have happened: it is in doubt, or an attempt may be under way."""
        return self in (EffectStatus.ATTEMPTING, EffectStatus.IN_DOUBT)


class NotDone(PerdureError):
    """Raised by a body: the effect certainly did not happen (refused connection, 429, 503, exit status 75).

    Args:
        why: one line for the operator; no personal data. An exception counts as its text.
        retry_after: pause that the other side requests; a number counts as seconds, also as the text of the header
            `Retry-After`; NaN, a negative number, or any other value counts as none.
        counts: False = the body asked nobody, for example because no place was free, and
            `RetryPolicy.maximum_attempts` does not count the attempt.

    Example:
        >>> error = NotDone("503", retry_after=timedelta(seconds=30))
        >>> error.retry_after.total_seconds()
        30.0
    """

    def __init__(self, why: object, *, retry_after: timedelta | float | str | None = None, counts: bool = True) -> None:
        super().__init__(str(why))
        self.why: str = str(why)
        if not isinstance(retry_after, timedelta | None):
            try:
                seconds = float(retry_after)
            except (TypeError, ValueError, OverflowError):  # an error here would make a definite *no* a doubt
                seconds = -1.0
            # NaN is not at least 0 either.
            retry_after = timedelta(seconds=min(seconds, LONGEST.total_seconds())) if seconds >= 0 else None
        self.retry_after: timedelta | None = retry_after
        self.counts = counts


class Refused(PerdureError):
    """Raised by a body: the other side will never accept this request.

    Args:
        why: one line for the operator; no personal data. An exception counts as its text.

    Example:
        >>> Refused("card declined").why
        'card declined'
    """

    def __init__(self, why: object) -> None:
        super().__init__(str(why))
        self.why: str = str(why)


class InDoubt(PerdureError):
    """Raised by a body to give the reason of a doubt. Any other exception means the same.

    Args:
        why: one line for the operator; no personal data. An exception counts as its text.

    Example:
        >>> try:
        ...     raise InDoubt("the connection broke after the request was sent")
        ... except InDoubt as error:
        ...     print(error.why)
        the connection broke after the request was sent
    """

    def __init__(self, why: object) -> None:
        super().__init__(str(why))
        self.why: str = str(why)


class _Outcome:
    """Has no truth value: as a condition, an effect that was not performed would count as true, as a done one does."""

    __slots__ = ()

    def __bool__(self) -> NoReturn:
        raise DeclarationError(
            f"{type(self).__name__} is an outcome of an effect, which has no truth value: match it against "
            "Done(receipt) and NotPerformed(why), or use isinstance(outcome, Done)"
        )


@dataclass(frozen=True, slots=True)
class Done(_Outcome, Generic[Out]):
    """The effect happened. `receipt` is the value that its body, a look-up, a message or a person returned.

    Example:
        >>> match Done("r-17"):
        ...     case Done(receipt):
        ...         print(receipt)
        r-17
    """

    receipt: Out


@dataclass(frozen=True, slots=True)
class NotPerformed(_Outcome):
    """The effect ended without being done. The subclass shows how, and `why` gives the reason in a sentence.

    `in_doubt` is True if an earlier attempt may have happened.

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
    """The other side definitely refused. The next `perform` has a new key.

    `in_doubt` is True if an earlier attempt may have happened. A refusal of one attempt ends that doubt only if the
    other side drops repeats.

    Example:
        >>> isinstance(WasRefused("card declined"), NotPerformed)
        True
    """


@dataclass(frozen=True, slots=True)
class Expired(NotPerformed):
    """`expires_at` has passed.

    Example:
        >>> Expired("the shop has closed", in_doubt=True).in_doubt
        True
    """


@dataclass(frozen=True, slots=True)
class Abandoned(NotPerformed):
    """A person gave the effect up. Only `send_again` sends it anew.

    Example:
        >>> Abandoned("ann: the customer has called").why
        'ann: the customer has called'
    """


@dataclass(frozen=True, slots=True)
class GaveUp(NotPerformed):
    """`RetryPolicy.maximum_attempts` attempts in a row have failed, and the last one certainly did nothing.

    `in_doubt` is True if an earlier one may have happened.

    Example:
        >>> GaveUp("5 attempts failed, the last one: 503").in_doubt
        False
    """


@dataclass(frozen=True, slots=True)
class DifferentInput(NotPerformed):
    """An earlier attempt under the same key had other input bytes. Only `send_again` sends the new ones.

    Example:
        >>> match DifferentInput("the amount has changed"):
        ...     case NotPerformed(why):
        ...         print(why)
        the amount has changed
    """
