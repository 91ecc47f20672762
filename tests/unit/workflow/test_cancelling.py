"""`Lifecycle.cancelling`: what a lifecycle does between the cancel that ended its `run` and its end."""

from __future__ import annotations

from datetime import timedelta
from enum import StrEnum

from pydantic import BaseModel
from temporalio import workflow

from perdure import Done, Effect, InDoubt, Lifecycle, NotDone, OperatorRequest, Repeat, RetryPolicy, state
from perdure.contracts.outcomes import Refused
from perdure.testing import START, At, WhenIn, rehearse
from tests.apps.magazines import Magazine, Reader, Reading, charge_month, say_goodbye

RETRY = RetryPolicy(initial_interval=timedelta(seconds=1), jitter=0)
ORDER = Effect[str, int]("order", timeout=timedelta(seconds=5), doubt=Repeat(), retry=RETRY)
TELL = Effect[str, int]("tell-them", timeout=timedelta(seconds=5), doubt=Repeat(), retry=RETRY)
ANN = OperatorRequest(by="ann", note="enough")


class Way(StrEnum):
    NEW = "new"
    WAITING = "waiting"
    LEAVING = "leaving"
    DONE = state("done", final=True)
    CANCELLED = state("cancelled", cancelled=True)


class Memory(BaseModel):
    told: int = 0


@workflow.defn(name="polite")
class Polite(Lifecycle[str, Way]):
    """Orders, waits, and tells three others before it ends cancelled."""

    effects = (ORDER, TELL)

    def __init__(self) -> None:
        self.told = 0

    def snapshot(self) -> Memory:
        return Memory(told=self.told)

    @workflow.run
    async def run(self, name: str) -> None:
        self.told = (self.restore(Memory) or Memory()).told
        await self.perform(ORDER, name, entering=Way.WAITING)
        await self.wait_until(START + timedelta(hours=1))
        await self.enter(Way.DONE)

    async def cancelling(self, asked: OperatorRequest) -> None:
        await self.enter(Way.LEAVING)
        while self.told < 3:
            self.report(f"{asked.by} ended it, {self.told} are told")
            end = await self.perform(TELL, "them", suffix=str(self.told))
            assert isinstance(end, Done)
            self.told += 1
            await self.wait_until(workflow.now() + timedelta(minutes=1))


async def test_it_performs_effects_and_waits_before_it_ends_cancelled() -> None:
    seen = await rehearse(
        Polite,
        "x",
        {ORDER: [1], TELL: [1, NotDone("busy"), InDoubt("cut"), 2, 3]},
        messages=[At(timedelta(minutes=5), "cancel", ANN)],
    )
    assert (seen.states, seen.calls(TELL)) == ([Way.WAITING, Way.LEAVING, Way.CANCELLED], 5)
    assert seen.took > timedelta(minutes=8)


async def test_started_again_from_its_top_it_tells_nobody_twice() -> None:
    seen = await rehearse(
        Polite,
        "x",
        {ORDER: [1], TELL: [1, 2, 3]},
        messages=[At(timedelta(minutes=5), "cancel", ANN)],
        renew_at_every_wait=True,
    )
    assert (seen.states, seen.calls(TELL)) == ([Way.WAITING, Way.LEAVING, Way.CANCELLED], 3)
    assert seen.runs > 3


async def test_a_second_cancel_is_told_of_the_first() -> None:
    seen = await rehearse(
        Polite,
        "x",
        {ORDER: [1], TELL: [1, 2, 3]},
        messages=[At(timedelta(minutes=5), "cancel", ANN), WhenIn(Way.LEAVING, "cancel", OperatorRequest(by="bob"))],
    )
    assert [each.why for each in seen.answers] == [None, "ann has already requested that"]


async def test_between_the_cancel_and_its_end_it_shows_that_it_waits_for_a_retry() -> None:
    seen = await rehearse(
        Magazine,
        Reader(months=2),
        {charge_month: ["first"], say_goodbye: [Refused("no"), None]},
        messages=[
            At(timedelta(days=1), "cancel", ANN),
            At(timedelta(days=2), "status"),
            At(timedelta(days=3), "retry_now", ANN),
        ],
    )
    assert [each.result.waits_for_retry for each in seen.answers if each.name == "status"] == [True]
    assert seen.states[-4:] == [Reading.PARTING, Reading.HELD, Reading.PARTING, Reading.CANCELLED]
