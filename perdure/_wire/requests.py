"""The requests of people to a running lifecycle, as arguments of updates."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, Field
from temporalio.exceptions import ApplicationError

from perdure.contracts.outcomes import EffectStatus
from perdure.errors import NotNow

SENT_AGAIN = "sent-again-"
"""With what the id of an update begins that a client sends again after `TakenOver`."""


class _TooEarly(NotNow):
    """A request may be accepted in a moment."""

    @classmethod
    def is_reason(cls, failure: BaseException | None) -> bool:
        """Whether this is it, as it comes back from Temporal."""
        return isinstance(failure, ApplicationError) and failure.type == cls.__name__


class TakenOver(_TooEarly):
    """A request came in a workflow task in which a worker may make again what a lost one had begun: the client sends it
    again, and that is not refused so a second time."""


class NotParked(_TooEarly):
    """The effect to resolve is not parked. Its doubt is on record before the workflow task is completed: if that one is
    lost, the client sends the request again until the next task has parked the effect."""


class OperatorRequest(BaseModel):
    """Who made a request, and why. Everybody can see both: put no personal data into `note`.

    Attributes:
        by: the name of the person.
        note: the reason.

    Example:
        >>> OperatorRequest(by="ann", note="the bank has confirmed it").by
        'ann'
    """

    by: str = Field(min_length=1, max_length=200)
    note: str = Field(default="", max_length=2000)


class RetryRequest(OperatorRequest):
    """A request to continue at once.

    Attributes:
        send_refused: whether an effect that was refused may be sent again, with a new key.
    """

    send_refused: bool = True


class Resolution(OperatorRequest):
    """The outcome of an effect in doubt, from a person or a webhook.

    Attributes:
        effect: name of the effect, with its suffix after a slash. It may be left out if only one is parked.
        outcome: `done`, `not_done` or `abandoned`.
        receipt: for `done`: the receipt as JSON, as the effect declares it.
        attempt: number of the attempt that is meant. If the effect was attempted again since, the request is refused.
            None = the last one.
    """

    effect: str | None = None
    outcome: EffectStatus
    receipt: Any = None
    attempt: int | None = None

    def means(self, effect: str, key: str) -> bool:
        """Whether it is about the effect of this name and key, as far as it names one."""
        return self.effect in (None, effect, key)

    def other_attempt(self, effect: str, last: int) -> str | None:
        """Why this is not about attempt `last` of the effect, which is in doubt; None = it is."""
        if self.attempt is None or self.attempt == last:
            return None
        what = "is settled" if self.attempt < last else "was not made"
        return f"attempt {self.attempt} of {effect} {what}: attempt {last} is in doubt"


class SendAgain(OperatorRequest):
    """A request to send an effect anew, with a new key.

    Attributes:
        effect: name of the effect, with its suffix after a slash, or its key: then one that was sent again since is
            left alone. It may be left out if only one ended.
    """

    effect: str | None = None
