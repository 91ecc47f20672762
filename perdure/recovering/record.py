"""What a run goes on from whose history is gone: the entity's record in the app's database (invariant 9).

It is as after a renewal: `run` starts from its top, what it did returns at once, what its snapshot holds is there.
"""

from __future__ import annotations

import time
from datetime import datetime
from typing import Any

from pydantic import BaseModel, Field

from perdure.contracts.terms import Terms
from perdure.store.writes import EffectView
from perdure.workflow.carried import Carried, Remembered, Unsettled
from perdure.workflow.decision import Known


class Doubt(BaseModel):
    """An effect that is attempted, or in doubt, on record."""

    key: str
    view: EffectView


class Record(BaseModel):
    """What the query `lines` says of an entity that is to go on from its record.

    Attributes:
        at: when it was read, by the database's clock.
        expects: place of the last message that is delivered again.
        again: how often each effect was sent anew, by the keys on record.
        doubts: what must be settled before anything else.
    """

    at: datetime
    state: str
    since: datetime
    created_at: datetime
    snapshot: Any = None
    heard: int = 0
    expects: int = 0
    memory: Remembered | None = None
    again: dict[str, int] = Field(default_factory=dict)
    doubts: list[Doubt] = Field(default_factory=list)


def carried_from(record: Record, round: int, version: int, terms: dict[str, Terms]) -> Carried:
    """What the next run is given."""
    known = record.memory or Remembered()
    slots = known.again.keys() | record.again.keys()
    return Carried(
        round=round,
        version=version,
        state=record.state,
        since=record.since,
        snapshot=record.snapshot,
        again={slot: max(known.again.get(slot, 0), record.again.get(slot, 0)) for slot in slots},
        ended=known.ended,
        unsettled={each.key: Unsettled(known=Known(effect=each.view), seen_at=record.at) for each in record.doubts},
        cancel=known.cancel,
        cancelling=known.cancelling,
        # Not when the first run began: what commits that are lost may have sent since is not known (invariant 11).
        began=int(time.time() * 1_000_000),
        started_at=record.created_at,
        heard=record.heard,
        expects=record.expects,
        terms=terms,
    )
