"""What a run goes on from whose history is gone: the entity's record in the app's database (invariant 9).

It is as after a renewal: `run` starts from its top, what it did returns at once, what its snapshot holds is there.
"""

from __future__ import annotations

import time
from datetime import datetime
from typing import Any

from pydantic import BaseModel, Field

from perdure._wire.carried import Carried, Remembered, Unsettled, found_on_record
from perdure._wire.terms import Terms
from perdure._wire.writes import EffectView
from perdure.contracts.keys import Key, slot_of


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


def carried_from(record: Record, generation: int, version: int, terms: dict[str, Terms]) -> Carried:
    """What the next run is given."""
    known = record.memory or Remembered()
    slots = known.again.keys() | record.again.keys()
    again = {slot: max(known.again.get(slot, 0), record.again.get(slot, 0)) for slot in slots}
    return Carried(
        generation=generation,
        version=version,
        state=record.state,
        since=record.since,
        snapshot=record.snapshot,
        again=again,
        ended=known.ended,
        unsettled={each.key: _unsettled(each, record, again, terms) for each in record.doubts},
        cancel=known.cancel,
        cancelling=known.cancelling,
        # Not when the first run began: what commits that are lost may have sent since is not known (invariant 11).
        began=int(time.time() * 1_000_000),
        started_at=record.created_at,
        heard=record.heard,
        expects=record.expects,
        terms=terms,
    )


def _unsettled(doubt: Doubt, record: Record, again: dict[str, int], terms: dict[str, Terms]) -> Unsettled:
    """What the next run knows of a doubt. Nobody waits for one that the author was told of, or that was sent anew."""
    effect, suffix, number = Key(doubt.key).performance
    reported = record.memory is not None and doubt.key in record.memory.ended
    newest = again.get(slot_of(effect, suffix), 0) == number
    waits = newest and not reported and effect in terms
    return found_on_record(doubt.view, record.at, (effect, suffix, terms[effect]) if waits else None)
