"""How an attempt ends, and how an effect ends. `in doubt` is a state here, never a log line.

A body returns its receipt, or raises `NotDone` or `Refused`; whatever else leaves it means *in doubt*.
`Lifecycle.perform` returns `Done` or a kind of `Ended`.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from typing import Generic, TypeVar

from perdure.errors import PerdureError

Out = TypeVar("Out", covariant=True)


class Status(StrEnum):
    """What the fence knows of one effect."""

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
        return self in (Status.ATTEMPTING, Status.IN_DOUBT)


class NotDone(PerdureError):
    """Raised by a body: the effect certainly did not happen (refused connection, 429, 503, exit status 75).

    Args:
        why: one line for the operator; no personal data.
        retry_after: how long the other side asks to be left alone.
        counts: False = nobody was asked, as where no place was free; it is none of those that `Retry.maximum` allows.
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
    """

    def __init__(self, why: str) -> None:
        super().__init__(why)
        self.why = why


class InDoubt(PerdureError):
    """Raised by a body that wants to say *why* it can't know; any other exception means the same.

    Args:
        why: one line for the operator; no personal data.
    """

    def __init__(self, why: str) -> None:
        super().__init__(why)
        self.why = why


@dataclass(frozen=True, slots=True)
class Done(Generic[Out]):
    """The effect happened. `receipt` is what the other side gave for it."""

    receipt: Out


@dataclass(frozen=True, slots=True)
class Ended:
    """The effect came to an end without being done; the subclass says how, `why` in a sentence.

    `in_doubt` is True where it may have happened all the same.
    """

    why: str
    in_doubt: bool = False


@dataclass(frozen=True, slots=True)
class WasRefused(Ended):
    """The other side said a definitive no. The next `perform` of it has a new key.

    `in_doubt` is True where an earlier attempt may have happened: a no to one attempt is none to another, unless the
    other side drops repeats.
    """


@dataclass(frozen=True, slots=True)
class Expired(Ended):
    """It was of no use any more: `expires_at` went by."""


@dataclass(frozen=True, slots=True)
class Abandoned(Ended):
    """A person gave it up. Only `send_again` sends it anew."""


@dataclass(frozen=True, slots=True)
class GaveUp(Ended):
    """As many attempts as `Retry.maximum` allows have failed, the last with a definite no.

    `in_doubt` is True where an earlier one may have happened.
    """


@dataclass(frozen=True, slots=True)
class DifferentInput(Ended):
    """An earlier attempt under the same key carried other bytes. Only `send_again` sends the new ones."""
