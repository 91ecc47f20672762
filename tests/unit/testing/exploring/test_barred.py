"""Once the author's code goes on without an effect, no attempt of it begins that a lost workflow task has ordered.

The worker that has the order is frozen before its commit, for longer than a workflow task may take.
"""

from __future__ import annotations

from datetime import timedelta
from enum import StrEnum

from pydantic import BaseModel
from temporalio import workflow

from perdure import Effect, Escalate, Lifecycle, state
from perdure.contracts.keys import Entity
from perdure.testing.exploring.authors import of_lifecycle
from perdure.testing.exploring.explorer import of_random_lifecycles
from perdure.testing.exploring.programs import Program
from perdure.testing.exploring.scenario import Event, Fault, Scenario

FROZEN = (Fault("before the commit", 3, "freeze", 16.0),)
"""A worker with the order of the second attempt."""
PERFORM = ["perform", "look-up-inline", "p1", {"then": "ended", "own": "long"}]


def test_an_effect_that_is_left_is_not_done_later() -> None:
    steps = [["race", [[PERFORM], [["messages", 1]]]], ["until", 40], ["perform", "repeat", "last", {}]]
    scenario = Scenario(
        seed=1,
        given=Program(steps=steps),
        calls={"look-up-inline": ["not done"]},
        faults=FROZEN,
        events=(Event(5.0, "message", 1.0),),
        builds=(0, 0),
    )
    world = of_random_lifecycles().world(scenario)
    assert world.findings == []
    assert world.other_side.accounts["explored/1/look-up-inline/p1"].done_at == []
    assert len(world.other_side.accounts["explored/1/repeat/last"].done_at) == 1
    assert world.database.moves(Entity("explored", "1"))[-1].state == "ended"


def test_an_effect_with_another_input_is_not_done_later_with_the_first_one() -> None:
    given = Program(steps=[["perform", "repeat-inline", "p1", {"varies": True, "own": "long"}], ["until", 60]])
    calls = {"repeat-inline": ["not done"]}
    world = of_random_lifecycles().world(Scenario(seed=1, given=given, calls=calls, faults=FROZEN, builds=(0, 1)))
    assert world.findings == []
    (end,) = world.observed.results["explored/1/repeat-inline/p1"]
    assert type(end.end).__name__ == "DifferentInput"
    assert world.other_side.accounts["explored/1/repeat-inline/p1"].done_at == []


CHARGE = Effect[str, str]("charge", timeout=timedelta(seconds=5), doubt=Escalate())


class Spot(StrEnum):
    """States."""

    NEW = "new"
    OVER = state("over", final=True)


class Kept(BaseModel):
    """The snapshot: a message that it follows is not delivered again."""

    count: int


@workflow.defn(name="twice", sandboxed=False)
class Twice(Lifecycle[str, Spot]):
    """Performs one effect for each message, under the same key."""

    effects = (CHARGE,)

    def __init__(self) -> None:
        self.count = 0

    @workflow.run
    async def run(self, given: str) -> None:
        """See the class."""
        await self.wait_until(self.started_at + timedelta(seconds=12))
        await self.enter(Spot.OVER)

    @workflow.signal
    async def note(self, text: str) -> None:
        """A message."""
        self.count += 1
        await self.perform(CHARGE, "x")

    def snapshot(self) -> Kept:
        """See the class."""
        return Kept(count=self.count)


def test_a_handler_waits_for_a_doubt_of_its_effect_that_is_being_settled() -> None:
    scenario = Scenario(
        seed=1,
        given="x",
        calls={"charge": ["lost after"]},
        events=(Event(1.0, "message", 1.0), Event(9.0, "lose Temporal", 1.0), Event(20.0, "message", 1.0)),
        builds=(0, 0),
    )
    explorer = of_lifecycle(Twice, "x", {CHARGE: "ok"}, (("note", "message {}".format),), ())
    world = explorer.world(scenario)
    assert world.findings == []
    assert world.database.moves(Entity("twice", "1"))[-1].state == "over"
