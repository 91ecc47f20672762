"""What people ask of a running lifecycle, by update."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, Field

from perdure.contracts.outcomes import EffectStatus


class OperatorRequest(BaseModel):
    """Who asked for something, and why. Shown to everybody: no personal data in `note`.

    Attributes:
        by: who asks.
        note: why.

    Example:
        >>> OperatorRequest(by="ann", note="the bank has confirmed it").by
        'ann'
    """

    by: str = Field(min_length=1, max_length=200)
    note: str = Field(default="", max_length=2000)


class RetryRequest(OperatorRequest):
    """Asks a run to go on at once.

    Attributes:
        send_refused: whether an effect that was refused may be sent again, under a new key.
    """

    send_refused: bool = True


class Resolution(OperatorRequest):
    """What a person, or a webhook, says became of an effect in doubt.

    Attributes:
        effect: name of the effect, with its suffix after a slash; may be left out where only one is parked.
        outcome: `done`, `not_done` or `abandoned`.
        receipt: for `done`: the receipt as JSON, as the effect declares it.
    """

    effect: str | None = None
    outcome: EffectStatus
    receipt: Any = None


class SendAgain(OperatorRequest):
    """Asks for an effect to be sent anew, under a new key.

    Attributes:
        effect: name of the effect, with its suffix after a slash; may be left out where only one ended.
    """

    effect: str | None = None
