"""`perform(then=)`: the state that is declared beforehand is on record with the outcome, and only with `done`."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from enum import StrEnum
from typing import Any

import pytest
from pydantic import BaseModel
from temporalio import workflow

from perdure import (
    AskFirst,
    Done,
    Effect,
    InDoubt,
    Lifecycle,
    Lookup,
    NotDone,
    NotPerformed,
    Refused,
    Repeat,
    RetryPolicy,
    state,
)
from perdure.contracts import EffectStatus
from perdure.errors import DeclarationError
from perdure.testing import After, At, Late, WorkerLost, rehearse


class Order(BaseModel):
    number: int = 1


class Slip(BaseModel):
    number: int = 7


class Step(StrEnum):
    NEW = "new"
    GOING = "going"
    PACKED = state("packed", leads_to=("going", "done"))
    DONE = state("done", final=True)
    NO = state("no", final=True)


class Charging(StrEnum):
    """The same steps in a line, in another order."""

    NEW = state("new", leads_to=("packed",))
    PACKED = state("packed", leads_to=("going",))
    GOING = state("going", leads_to=("no",))
    NO = "no"
    DONE = state("done", final=True)


RETRY = RetryPolicy(initial_interval=timedelta(seconds=1), jitter=0)
FIND = Lookup[Order, Slip]("find-then")
SEND = Effect[Order, Slip](
    "send-then", timeout=timedelta(seconds=5), doubt=AskFirst(FIND, visibility_delay=timedelta(seconds=5)), retry=RETRY
)
SEND_INLINE = Effect[Order, Slip](
    "send-in-then", timeout=timedelta(seconds=5), doubt=Repeat(), retry=RETRY, inline=True
)
OTHER = Effect[Order, Slip]("other-then", timeout=timedelta(seconds=5), doubt=Repeat(), retry=RETRY)


@workflow.defn(name="straight-then")
class Straight(Lifecycle[Order, Step]):
    effects = (SEND,)

    @workflow.run
    async def run(self, order: Order) -> None:
        if isinstance(await self.perform(SEND, order, entering=Step.GOING, then=Step.DONE), NotPerformed):
            await self.enter(Step.NO)


@workflow.defn(name="two-steps-then")
class TwoSteps(Lifecycle[Order, Step]):
    """Packed, then sent; remembers the words that it hears."""

    effects = (SEND, OTHER)

    def __init__(self) -> None:
        self.words: list[str] = []

    def snapshot(self) -> Words:
        return Words(words=self.words)

    @workflow.run
    async def run(self, order: Order) -> None:
        self.words = [*((self.restore(Words) or Words()).words), *self.words]
        await self.perform(SEND, order, entering=Step.GOING, then=Step.PACKED)
        await self.perform(OTHER, order, then=Step.DONE)

    @workflow.signal
    def hear(self, word: str) -> None:
        self.words.append(word)


class Words(BaseModel):
    words: list[str] = []


@workflow.defn(name="wrong-then")
class Wrong(Lifecycle[Order, Step]):
    effects = (SEND,)

    @workflow.run
    async def run(self, order: Order) -> None:
        await self.perform(SEND, order, entering=Step.GOING, then=Step.NEW)


@workflow.defn(name="beside-then")
class Beside(Lifecycle[Order, Step]):
    effects = (SEND, OTHER)

    @workflow.run
    async def run(self, order: Order) -> None:
        await self.enter(Step.GOING)
        first = asyncio.create_task(self.perform(OTHER, order))
        await asyncio.sleep(0)
        await self.perform(SEND, order, then=Step.DONE)
        await first


@workflow.defn(name="gathered-then")
class Gathered(Lifecycle[Order, Step]):
    """The end is ordered first."""

    effects = (SEND, SEND_INLINE, OTHER)

    @workflow.run
    async def run(self, order: Order) -> None:
        effect = SEND_INLINE if order.number == 2 else SEND
        await asyncio.gather(self.perform(effect, order, then=Step.DONE), self.perform(OTHER, order))


@workflow.defn(name="gathered-end")
class Ends(Lifecycle[Order, Step]):
    """The end is entered first."""

    effects = (OTHER,)

    @workflow.run
    async def run(self, order: Order) -> None:
        await asyncio.gather(self.enter(Step.DONE), self.perform(OTHER, order))


@workflow.defn(name="handled-then")
class Handled(Lifecycle[Order, Step]):
    """The handler of a message begins its effect after the end is ordered."""

    effects = (SEND, OTHER)

    @workflow.run
    async def run(self, order: Order) -> None:
        await self.perform(SEND, order, then=Step.DONE)

    @workflow.signal
    async def tell(self, order: Order) -> None:
        await self.perform(OTHER, order)


@workflow.defn(name="on-then")
class On(Lifecycle[Order, Step]):
    effects = (SEND,)

    @workflow.run
    async def run(self, order: Order) -> None:
        end = await self.perform(SEND, order, entering=Step.GOING, then=Step.PACKED)
        assert isinstance(end, Done)
        assert self.state is Step.PACKED
        await self.enter(Step.DONE, why=f"slip {end.receipt.number}")


@workflow.defn(name="charge-then")
class Charge(Lifecycle[Order, Step]):
    """The second effect is followed by a state that the one before it does not lead to."""

    states = Charging
    effects = (SEND, OTHER, SEND_INLINE)

    @workflow.run
    async def run(self, order: Order) -> None:
        await self.perform(OTHER, order, entering=Step.PACKED)
        effect = SEND_INLINE if order.number == 2 else SEND
        assert isinstance(await self.perform(effect, order, entering=Step.GOING, then=Step.NO), Done)
        await self.enter(Step.DONE)


@workflow.defn(name="wrong-charge-then")
class WrongCharge(Lifecycle[Order, Step]):
    states = Charging
    effects = (SEND, OTHER)

    @workflow.run
    async def run(self, order: Order) -> None:
        await self.perform(OTHER, order, entering=Step.PACKED)
        await self.perform(SEND, order, entering=Step.GOING, then=Step.DONE)


async def told(lifecycle: Any, script: dict[Any, Any], **more: Any) -> Any:
    return await rehearse(lifecycle, Order(), script, **more, allow_unused=True)


async def test_a_done_effect_is_in_the_state_of_then_without_a_further_write() -> None:
    seen = await told(Straight, {SEND: [Slip()]})
    assert seen.states == [Step.GOING, Step.DONE]
    assert seen.end == Step.DONE
    assert seen.writes == 2


@pytest.mark.parametrize(
    ("script", "states"),
    [
        ({SEND: [Refused("no")]}, [Step.GOING, Step.NO]),
        ({SEND: [InDoubt("hm"), Slip()], FIND: [None] * 9}, [Step.GOING, Step.DONE]),
        ({SEND: [InDoubt("hm")], FIND: [Slip()]}, [Step.GOING, Step.DONE]),
        ({SEND: [WorkerLost()], FIND: [Slip()]}, [Step.GOING, Step.DONE]),
        ({SEND: [WorkerLost(before=True), Slip()], FIND: [None] * 9}, [Step.GOING, Step.DONE]),
        ({SEND: [Late(Slip(), timedelta(seconds=1))], FIND: [None] * 9}, [Step.GOING, Step.DONE]),
    ],
    ids=["refused", "sent again", "found", "found after a crash", "never begun", "done late"],
)
async def test_whatever_way_it_ends_the_state_follows_from_the_outcome(
    script: dict[Any, Any], states: list[Step]
) -> None:
    seen = await told(Straight, script)
    assert seen.states == states


async def test_a_state_that_may_not_follow_is_refused_before_anything_is_sent() -> None:

    with pytest.raises(DeclarationError, match="'going' may not lead to 'new'"):
        await told(Wrong, {SEND: []})


@pytest.mark.parametrize("renews", [False, True], ids=["one run", "new runs"])
@pytest.mark.parametrize("number", [1, 2], ids=["regular", "inline"])
async def test_a_worker_lost_after_it_was_done_leaves_it_in_the_state_that_follows(number: int, renews: bool) -> None:
    """The state was committed with the outcome; that no answer came changes nothing, and it is entered once."""
    effect = SEND_INLINE if number == 2 else SEND
    script: dict[Any, Any] = {OTHER: [NotDone("busy"), Slip()], effect: [Late(Slip(), timedelta(seconds=1))]}
    seen = await rehearse(Charge, Order(number=number), script, renew_at_every_wait=renews)
    assert (seen.states, seen.end) == ([Step.PACKED, Step.GOING, Step.NO, Step.DONE], Step.DONE)
    assert (seen.calls(effect), seen.writes) == (1, 8 + (number == 2) + renews)


async def test_a_state_that_may_not_follow_is_refused_before_anything_is_sent_in_a_later_run_too() -> None:
    with pytest.raises(DeclarationError, match="'going' may not lead to 'done'"):
        await told(WrongCharge, {OTHER: [InDoubt("hm"), Slip()], SEND: []}, renew_at_every_wait=True)


async def test_an_end_is_not_committed_under_what_runs_beside_it() -> None:
    seen = await told(Beside, {SEND: [Slip()], OTHER: [InDoubt("hm"), After(timedelta(seconds=3), Slip())]})
    assert (seen.states, seen.end) == ([Step.GOING, Step.DONE], Step.DONE)
    assert (seen.calls(SEND), seen.calls(OTHER)) == (1, 2)
    assert all(view.status is EffectStatus.DONE for view in seen.effects.values())


@pytest.mark.parametrize("first", [NotDone("busy"), WorkerLost(), After(timedelta(seconds=5), NotDone("busy"))])
@pytest.mark.parametrize("number", [1, 2], ids=["regular", "inline"])
async def test_an_end_is_not_committed_under_a_branch_that_begins_after_its_order(number: int, first: Any) -> None:
    effect = SEND_INLINE if number == 2 else SEND
    seen = await rehearse(Gathered, Order(number=number), {effect: [Slip()], OTHER: [first, Slip()]})
    assert (seen.states, seen.calls(OTHER)) == ([Step.DONE], 2)
    assert all(view.status is EffectStatus.DONE for view in seen.effects.values())


async def test_an_end_waits_for_a_branch_that_is_about_to_begin_an_effect() -> None:
    seen = await rehearse(Ends, Order(), {OTHER: [NotDone("busy"), Slip()]})
    assert (seen.states, seen.calls(OTHER)) == ([Step.DONE], 2)
    assert all(view.status is EffectStatus.DONE for view in seen.effects.values())


async def test_an_end_is_not_committed_under_a_handler_that_begins_after_its_order() -> None:
    busy = NotDone("busy", retry_after=timedelta(9))
    script: dict[Any, list[Any]] = {SEND: [After(timedelta(seconds=3), Slip())], OTHER: [busy, Slip()]}
    seen = await rehearse(Handled, Order(), script, messages=[At(timedelta(seconds=1), "tell", Order())])
    assert (seen.states, seen.calls(OTHER)) == ([Step.DONE], 2)
    assert seen.took > timedelta(9)


async def test_a_state_on_the_way_is_on_record_with_what_the_lifecycle_remembers() -> None:
    """What was heard while the effect was under way came after its order was made: it takes a write of its own."""
    script = {SEND: [After(timedelta(seconds=3), Slip())], OTHER: [Slip()]}
    seen = await told(TwoSteps, script, messages=[At(timedelta(seconds=1), "hear", "hello")])
    assert list(dict.fromkeys(seen.states)) == [Step.GOING, Step.PACKED, Step.DONE]
    assert seen.snapshot == {"words": ["hello"]}


async def test_new_runs_in_between_change_nothing() -> None:
    script = {SEND: [InDoubt("hm"), Slip()], FIND: [None] * 9, OTHER: [InDoubt("hm"), Slip()]}
    seen = await told(TwoSteps, script, renew_at_every_wait=True)
    assert seen.runs > 1
    assert list(dict.fromkeys(seen.states)) == [Step.GOING, Step.PACKED, Step.DONE]
    assert (seen.calls(SEND), seen.calls(OTHER)) == (2, 2)


async def test_the_lifecycle_goes_on_from_there() -> None:

    seen = await told(On, {SEND: [Slip()]})
    assert seen.states == [Step.GOING, Step.PACKED, Step.DONE]
