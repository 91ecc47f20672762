"""The orders of a workflow to its activities as JSON data, so that any data converter works."""

from __future__ import annotations

from datetime import datetime

from pydantic import BaseModel

from perdure._wire.orders import AttemptOrder, LookupOrder
from perdure._wire.writes import EffectView


class PlainAttempt(BaseModel):
    """One attempt to make.

    Attributes:
        order: the attempt.
        view: the workflow's facts about the effect.
        begin_by: no attempt begins after this time, because the other side may have forgotten the key.
    """

    order: AttemptOrder
    view: EffectView
    begin_by: datetime | None = None


class PlainLookup(BaseModel):
    """One look-up to make; see `PlainAttempt`."""

    order: LookupOrder
    view: EffectView
