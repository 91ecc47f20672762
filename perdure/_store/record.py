"""The entity's record in the app's database, from which a run continues if its history is lost (invariant 9).

The run behaves as after continue-as-new: `run` starts from its top, settled effects return at once, and the snapshot is
there.
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
    """A recorded effect that is attempting or in doubt."""

    key: str
    view: EffectView


class Record(BaseModel):
    """The result of the query `lines` for an entity that continues from its record.

    Attributes:
        at: time at which the record was read, by the database's clock.
        expects: ordinal of the last message that is delivered again.
        again: how often each effect was sent with a new key, by the keys on record.
        doubts: effects that must be settled before anything else.
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
    """The data for the next run."""
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
        came_from=known.came_from,
        # Not the begin of the first run: effects of lost commits since then are unknown (invariant 11).
        began=int(time.time() * 1_000_000),
        recovered=True,
        started_at=record.created_at,
        heard=record.heard,
        expects=record.expects,
        terms=terms,
    )


def _unsettled(doubt: Doubt, record: Record, again: dict[str, int], terms: dict[str, Terms]) -> Unsettled:
    """A doubt for the next run. Nobody waits for a doubt that `perform` has returned, or whose effect was sent anew."""
    effect, suffix, number = Key(doubt.key).performance
    reported = record.memory is not None and doubt.key in record.memory.ended
    newest = again.get(slot_of(effect, suffix), 0) == number
    waits = newest and not reported and effect in terms
    return found_on_record(doubt.view, record.at, (effect, suffix) if waits else None)
