"""A doubt that only the record of an earlier run holds waits for a person before the entity ends."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from enum import StrEnum

from pydantic import BaseModel
from temporalio import workflow

from perdure import Effect, Escalate, Lifecycle, state
from perdure.testing.exploring.authors import of_lifecycle
from perdure.testing.exploring.scenario import Event, Scenario

CHARGE = Effect[str, str]("charge", timeout=timedelta(seconds=5), doubt=Escalate())


class Spot(StrEnum):
    """States."""

    NEW = "new"
    OVER = state("over", final=True)


class Kept(BaseModel):
    """The snapshot."""

    charged: bool = False


@workflow.defn(name="detour")
class Detour(Lifecycle[str, Spot]):
    """Takes it for charged as soon as it has begun to charge, once it is started from its top."""

    effects = (CHARGE,)

    def __init__(self) -> None:
        self.charged = False

    @workflow.run
    async def run(self, given: str) -> None:
        """See the class."""
        kept = self.restore(Kept)
        if kept is None or not kept.charged:
            self.charged = True
            await asyncio.gather(self.perform(CHARGE, given, suffix="1"), self.save())
        await self.enter(Spot.OVER)

    def snapshot(self) -> Kept:
        """See the class."""
        return Kept(charged=self.charged)


def test_a_doubt_that_is_only_on_record_waits_for_a_person_before_the_end() -> None:
    scenario = Scenario(
        seed=0, given="x", calls={"charge": ["lost after"]}, events=(Event(4.0, "lose Temporal", 1.0),), builds=(0,)
    )

    world = of_lifecycle(Detour, "x", {CHARGE: "ok"}, (), ()).world(scenario)

    assert world.findings == []
    assert {"detour/1/charge/1"} == world.observed.settled_by_person
