"""What a handler saves while an end is being written is on record, also if the database refuses that end."""

from __future__ import annotations

from datetime import timedelta
from enum import StrEnum

from pydantic import BaseModel
from temporalio import workflow

from perdure import Effect, Escalate, Lifecycle, state
from perdure.contracts.keys import Entity
from perdure.testing.exploring.authors import of_lifecycle
from perdure.testing.exploring.scenario import Event, Fault, Scenario

CHARGE = Effect[str, str]("charge", timeout=timedelta(seconds=5), doubt=Escalate())
RETURNED = list[str]()
"""The messages whose `save` has returned."""


class Spot(StrEnum):
    """States."""

    NEW = "new"
    OVER = state("over", final=True)


class Kept(BaseModel):
    """The snapshot."""

    received: list[str]


@workflow.defn(name="saving", sandboxed=False)
class Saving(Lifecycle[str, Spot]):
    """Performs an effect for the first message, and saves the others."""

    effects = (CHARGE,)

    def __init__(self) -> None:
        self.received: list[str] = []

    @workflow.run
    async def run(self, given: str) -> None:
        """See the class."""
        await self.wait_until(self.started_at + timedelta(seconds=5))
        await self.enter(Spot.OVER)

    @workflow.signal
    async def note(self, text: str) -> None:
        """A message."""
        self.received.append(text)
        if text == "message 1":
            await self.perform(CHARGE, text)
        else:
            await self.save()
            if not workflow.unsafe.is_replaying():
                RETURNED.append(text)

    def snapshot(self) -> Kept:
        """See the class."""
        return Kept(received=self.received)


def test_what_a_handler_saves_beside_a_refused_end_is_on_record() -> None:
    RETURNED.clear()
    scenario = Scenario(
        seed=668,
        given="x",
        faults=(Fault("after the commit", 2, "lock", 6.0), Fault("before the commit", 5, "cut off", 12.0)),
        events=(Event(4.423, "away", 6.0), Event(5.005, "message", 1.0), Event(5.5, "message", 1.0)),
        builds=(0,),
    )

    explorer = of_lifecycle(Saving, "x", {CHARGE: "ok"}, (("note", "message {}".format),), ())
    world = explorer.world(scenario)

    assert world.findings == []
    moves = world.database.moves(Entity("saving", "1"))
    on_record = [each for each in moves if not each.final and each.why == "saved"]
    assert len(on_record) == len(RETURNED) > 0
