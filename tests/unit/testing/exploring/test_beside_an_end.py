"""What a handler does while an end is being written, which the database refuses."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from enum import StrEnum

from pydantic import BaseModel
from temporalio import workflow

from perdure import Effect, Escalate, Lifecycle, state
from perdure.contracts.keys import Entity
from perdure.testing.exploring.authors import of_lifecycle
from perdure.testing.exploring.explorer import Explorer, of_random_lifecycles
from perdure.testing.exploring.programs import Program
from perdure.testing.exploring.scenario import Event, Fault, Scenario

CHARGE = Effect[str, str]("charge", timeout=timedelta(seconds=5), doubt=Escalate(), inline=True)
RETURNED = list[str]()
"""The messages whose `save` has returned."""


class Spot(StrEnum):
    """States."""

    NEW = state("new", leads_to=("turn", "over"))
    TURN = state("turn", leads_to=("new",))
    OVER = state("over", final=True)


class Kept(BaseModel):
    """The snapshot."""

    received: list[str]
    updated: list[str]


@workflow.defn(name="turning", sandboxed=False)
class Turning(Lifecycle[str, Spot]):
    """Turns while PostgreSQL is away."""

    effects = (CHARGE,)

    def __init__(self) -> None:
        self.updated: list[str] = []

    @workflow.run
    async def run(self, given: str) -> None:
        """See the class."""
        await workflow.sleep(5)
        await self.enter(Spot.TURN)
        self.updated.append("turned")
        await self.enter(Spot.NEW)
        await self.enter(Spot.OVER)

    @workflow.update
    def append(self, text: str) -> None:
        """A message that waits for an answer."""
        self.updated.append(text)

    def snapshot(self) -> Kept:
        """See the class."""
        return Kept(received=[], updated=self.updated)


@workflow.defn(name="saving", sandboxed=False)
class Saving(Lifecycle[str, Spot]):
    """Performs an effect for the first update, and saves each message."""

    effects = (CHARGE,)

    def __init__(self) -> None:
        self.received: list[str] = []
        self.updated: list[str] = []

    @workflow.run
    async def run(self, given: str) -> None:
        """See the class."""
        await self.wait_until(self.started_at + timedelta(seconds=5))
        await self.enter(Spot.OVER)

    @workflow.signal
    async def note(self, text: str) -> None:
        """A message."""
        self.received.append(text)
        await self.save()
        if not workflow.unsafe.is_replaying():
            RETURNED.append(text)

    @workflow.signal
    async def turn(self, text: str) -> None:
        """A message."""
        await self.enter(Spot.TURN)

    @workflow.update
    async def append(self, text: str) -> None:
        """A message that waits for an answer."""
        self.updated.append(text)
        if text == "update 1":
            await self.perform(CHARGE, text)

    def snapshot(self) -> Kept:
        """See the class."""
        return Kept(received=self.received, updated=self.updated)


DOUBT = Scenario(
    seed=668,
    given="x",
    faults=(Fault("after the commit", 1, "kill", 0.3),),
    events=(Event(4.0, "update", 1.0), Event(8.9, "lose replies", 3.0), Event(9.2, "message", 1.0)),
    builds=(0,),
)
"""A worker dies while it performs the effect for an update, which is lost with it. The database refuses the end because
of that attempt, which may have succeeded. The message comes meanwhile."""
NOTE, TURN = ("note", "message {}".format), ("turn", "message {}".format)


def explorer(*messages: tuple[str, Callable[[int], str]]) -> Explorer:
    """Explores `Saving`, whose handler of updates the subject does not list."""
    made = of_lifecycle(Saving, "x", {CHARGE: "ok"}, messages, ())
    made.subject = replace(made.subject, secret="a subject with updates")
    return made


def test_what_a_handler_saves_beside_a_refused_end_is_on_record() -> None:
    RETURNED.clear()

    world = explorer(NOTE).world(DOUBT)

    assert world.findings == []
    moves = world.database.moves(Entity("saving", "1"))
    on_record = [each for each in moves if not each.final and each.why == "saved"]
    assert len(on_record) == len(RETURNED) > 0


def test_a_state_that_a_handler_enters_beside_a_refused_end_may_not_lead_to_that_end() -> None:
    world = explorer(TURN).world(DOUBT)

    assert [each.what for each in world.findings] == [
        "saving/1: DeclarationError: saving/1: 'turn' may not lead to 'over'; declared are: new"
    ]
    moves = [each.state for each in world.database.moves(Entity("saving", "1"))]
    assert moves[-1] == "turn"
    assert "over" not in moves


def test_an_update_beside_a_refused_end_is_handled_after_it() -> None:
    first, lost, second = DOUBT.events

    world = explorer(NOTE).world(replace(DOUBT, events=(first, lost, replace(second, what="update"))))

    assert world.findings == []
    assert world.database.store.snapshot("saving", "1") == {"received": [], "updated": ["update 2"]}


def test_an_update_beside_a_move_that_is_no_end_does_not_wait_for_postgresql() -> None:
    turning = of_lifecycle(Turning, "x", {CHARGE: "ok"}, (), ())
    turning.subject = replace(turning.subject, secret="a subject with updates")

    world = turning.world(replace(DOUBT, faults=(), events=(Event(4.5, "away", 20.0), Event(9.0, "update", 1.0))))

    assert world.findings == []
    assert world.database.store.snapshot("turning", "1") == {"received": [], "updated": ["update 1", "turned"]}


def test_an_effect_that_a_message_orders_while_an_end_is_written_does_not_begin_beside_it() -> None:
    """The reply of the write comes late. Beside it, the effect would have waited for its second attempt for ever."""
    given = Program(
        steps=[["save"], ["enter", "s1"]], at_message=[["perform", "repeat", "p5", {}]], secret="ann@example.org"
    )
    late = (Fault("after the commit", 2, "lock", 18.0),)
    one = Scenario(
        seed=1, given=given, calls={"repeat": ["no place"]}, faults=late, events=(Event(0.04, "message"),), builds=(0,)
    )

    assert of_random_lifecycles().play(one) == []
