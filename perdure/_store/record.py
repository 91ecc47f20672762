"""The entity's record in the app's database, from which a run continues if its history is lost (invariant 9).

The run behaves as after continue-as-new: `run` starts from its top, settled effects return at once, and the snapshot is
there.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

from pydantic import BaseModel, Field

from perdure._wire.carried import Carried, HowNotPerformed, Remembered, Unsettled, found_on_record
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
        done: keys of the effects that are done, and that `memory` has as ended without being done.
    """

    at: datetime
    state: str
    since: datetime
    created_at: datetime
    snapshot: Any = None
    acknowledged: int = 0
    expects: int = 0
    memory: Remembered | None = None
    again: dict[str, int] = Field(default_factory=dict)
    doubts: list[Doubt] = Field(default_factory=list)
    done: list[str] = Field(default_factory=list)

    @property
    def ended(self) -> dict[str, HowNotPerformed]:
        """Effects that have ended without being done, by key. An attempt that began after its effect had ended, in a
        workflow task that did not know of the end, outdates that end."""
        ended = {} if self.memory is None else self.memory.ended
        attempted = {*self.done, *(each.key for each in self.doubts)}
        return {key: how for key, how in ended.items() if how.in_doubt or key not in attempted}


def carried_from(record: Record, generation: int, version: int, terms: dict[str, Terms], *, epoch: int = 0) -> Carried:
    """The data for the next run.

    Args:
        epoch: begin of the database's newest epoch. In an older record, an effect that has ended without being done may
            have been attempted again, in commits that are lost.
    """
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
        ended={key: how for key, how in record.ended.items() if how.in_doubt or version >= epoch},
        unsettled={each.key: _unsettled(each, record, again) for each in record.doubts},
        cancel=known.cancel,
        cancelling=known.cancelling,
        why=known.why,
        came_from=known.came_from,
        waited_until=known.waited_until,
        # Not the begin of the first run: effects of lost commits since then are unknown (invariant 11).
        began=int(record.at.timestamp() * 1_000_000),
        recovered=True,
        started_at=record.created_at,
        born=record.created_at,
        last_message=record.acknowledged,
        expects=record.expects,
        terms=terms,
    )


def _unsettled(doubt: Doubt, record: Record, again: dict[str, int]) -> Unsettled:
    """A doubt for the next run. Nobody waits for a doubt that `perform` has returned, or whose effect was sent anew."""
    effect, suffix, number = Key(doubt.key).performance
    newest = again.get(slot_of(effect, suffix), 0) == number
    waits = newest and doubt.key not in record.ended
    return found_on_record(doubt.view, record.at, (effect, suffix) if waits else None)
