"""What workflow and activities say to each other, as JSON data: the workflow's data converter may be any."""

from __future__ import annotations

from datetime import datetime

from pydantic import BaseModel

from perdure._wire.orders import AttemptOrder, LookupOrder
from perdure._wire.writes import EffectView


class PlainAttempt(BaseModel):
    """One attempt to make.

    Attributes:
        order: the attempt.
        view: what the workflow knows of the effect.
        begin_by: later, no attempt begins: the other side may have forgotten the key.
    """

    order: AttemptOrder
    view: EffectView
    begin_by: datetime | None = None


class PlainLookup(BaseModel):
    """One look-up to make; see `PlainAttempt`."""

    order: LookupOrder
    view: EffectView
