"""A run that goes on in a new one starts from its top, and comes to where it was: nothing is redone or forgotten."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from datetime import datetime, timedelta
from enum import StrEnum

import pytest
from temporalio import workflow

from perdure import Done, Effect, Escalate, Lifecycle, NotDone, OperatorRequest, Repeat, RetryPolicy, state
from perdure._wire.requests import RetryRequest
from perdure._wire.status import LifecycleStatus
from perdure.contracts import EffectStatus
from perdure.contracts.keys import Entity
from perdure.testing import START, At, Late, When, WorkerLost, rehearse
from perdure.testing.exploring.explorer import of_random_lifecycles
from perdure.testing.exploring.programs import Program
from perdure.testing.exploring.scenario import Scenario
from tests.apps import bookings
from tests.apps.contracts import REGULAR, Booking, Ticket

DAY = timedelta(days=1)


class Leg(StrEnum):
    """How far a journey is."""

    HOME = "home"
    OUT = "out"
    STOPPED = "stopped"
    THERE = state("there", final=True)


@workflow.defn(name="journey")
class Journey(Lifecycle[Booking, Leg]):
    """Waits for a time before each state, and for a word before the last one."""

    def __init__(self) -> None:
        self.told = False

    @workflow.run
    async def run(self, booking: Booking) -> None:
        """From one state to the next."""
        for day, leg in enumerate((Leg.OUT, Leg.STOPPED), 1):
            await self.wait_until(START + day * DAY)
            await self.enter(leg)
        await self.wait_for(lambda: self.told)
        await self.enter(Leg.THERE)

    @workflow.signal
    def tell(self) -> None:
        """Let it go on to the end."""
        self.told = True


async def test_waits_that_are_over_lead_no_new_run_back_to_states_that_it_has_passed() -> None:
    seen = await rehearse(Journey, Booking(), {}, messages=[At(5 * DAY, "tell")], renew_at_every_wait=True)
    assert seen.runs > 2
    assert seen.states == [Leg.OUT, Leg.STOPPED, Leg.THERE]
    assert seen.took == 5 * DAY


class Place(StrEnum):
    """Where somebody is who comes back."""

    HOME = "home"
    AWAY = state("away", leads_to=("home",))
    GONE = state("gone", final=True)


@workflow.defn(name="return-trip")
class ReturnTrip(Lifecycle[Booking, Place]):
    """Comes back to its first state after an effect, and waits there."""

    effects = (REGULAR["repeat"],)

    @workflow.run
    async def run(self, booking: Booking) -> None:
        """Away, back, and gone after two days."""
        await self.perform(REGULAR["repeat"], booking, entering=Place.AWAY)
        await self.enter(Place.HOME)
        for day in (1, 2):
            await self.wait_until(START + day * DAY)
        await self.enter(Place.GONE)


async def test_a_state_that_leads_back_to_where_a_run_was_is_not_entered_again() -> None:
    seen = await rehearse(ReturnTrip, Booking(), {REGULAR["repeat"]: [Ticket(number=1)]}, renew_at_every_wait=True)
    assert seen.runs > 2
    assert seen.states == [Place.AWAY, Place.HOME, Place.GONE]


async def test_a_cancel_that_waits_for_a_doubt_to_be_settled_is_not_forgotten_in_a_new_run() -> None:
    do = REGULAR["lookup"]
    assert do.lookup is not None

    def is_looked_up(status: LifecycleStatus) -> bool:
        return any(each.status is EffectStatus.IN_DOUBT and each.next_at for each in status.effects)

    seen = await rehearse(
        bookings.LookupBooking,
        Booking(),
        {do: [WorkerLost()], do.lookup: [None] * 9},
        messages=[When(is_looked_up, "cancel", OperatorRequest(by="ann"))],
        renew_at_every_wait=True,
        allow_unused=True,
    )
    assert seen.runs > 1
    assert [each.how for each in seen.answers] == ["completed"]
    assert seen.end is bookings.Way.CANCELLED


class Course(StrEnum):
    NEW = "new"
    GOING = state("going", leads_to=("held", "done"))
    HELD = state("held", leads_to=("going", "back"), attention=True)
    BACK = "back"
    DONE = state("done", final=True)
    CANCELLED = state("cancelled", cancelled=True)


TRY = Effect[str, int]("try", timeout=timedelta(seconds=5), doubt=Repeat(), retry=RetryPolicy(maximum_attempts=1))


@workflow.defn(name="persistent")
class Persistent(Lifecycle[str, Course]):
    """Tries once a day, or as soon as somebody requests it."""

    effects = (TRY,)

    @workflow.run
    async def run(self, how: str) -> None:
        day = 0
        while True:
            await self.enter(Course.GOING)
            if isinstance(await self.perform(TRY, how, suffix=f"day-{day}"), Done):
                return await self.enter(Course.DONE)
            day += 1
            await self.enter(Course.HELD)
            await getattr(self, f"_{how}")(self.started_at + day * DAY)

    async def _time_out(self, until: datetime) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout((until - workflow.now()).total_seconds()):
                await self.retry_requested()

    async def _wait_for(self, until: datetime) -> None:
        with suppress(TimeoutError):
            await asyncio.wait_for(self.retry_requested(), (until - workflow.now()).total_seconds())

    async def _race(self, until: datetime) -> None:
        tasks = [asyncio.ensure_future(each) for each in (self.retry_requested(), self.wait_until(until))]
        await workflow.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for each in tasks:
            each.cancel()
        await workflow.wait(tasks)

    async def _group(self, until: datetime) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(self._race(until))

    async def cancelling(self, asked: OperatorRequest) -> None:
        await self.enter(Course.BACK)


class TestABranchThatHasWaited:
    """What it waits in makes no difference to the states that it enters then."""

    @pytest.mark.parametrize("how", ["time_out", "wait_for", "race", "group"])
    @pytest.mark.parametrize("retried", [False, True])
    async def test_it_enters_the_state_before_the_one_that_needs_a_person(self, how: str, retried: bool) -> None:
        messages = [At(DAY / 2, "retry_now", RetryRequest(by="ann", note="go"))] if retried else []
        for renews in (False, True):
            script = {TRY: [NotDone("busy"), 1]}
            seen = await rehearse(Persistent, how, script, messages=messages, renew_at_every_wait=renews)
            # A new run that begins in `GOING` may show the past round once more.
            assert seen.states[:3] == [Course.GOING, Course.HELD, Course.GOING]
            assert (seen.states[-2:], seen.runs > 1) == ([Course.GOING, Course.DONE], renews)

    @pytest.mark.parametrize("renews", [False, True])
    async def test_a_cancel_leads_to_where_no_earlier_run_was(self, renews: bool) -> None:
        messages = [At(DAY / 2, "cancel", OperatorRequest(by="ann", note="enough"))]
        script = {TRY: [NotDone("busy")]}
        seen = await rehearse(Persistent, "race", script, messages=messages, renew_at_every_wait=renews)
        assert seen.states == [Course.GOING, Course.HELD, Course.BACK, Course.CANCELLED]


@workflow.defn(name="saving")
class Saving(Lifecycle[str, Course]):
    """Needs a person for a reason, and saves what happens meanwhile."""

    @workflow.run
    async def run(self, why: str) -> None:
        await self.enter(Course.GOING)
        await self.enter(Course.HELD, why=why)
        await self.wait_until(START + DAY)
        await self.save()
        await self.retry_requested()


@pytest.mark.parametrize("renews", [False, True])
async def test_why_a_person_is_needed_is_not_forgotten_in_later_writes_and_runs(renews: bool) -> None:
    seen = await rehearse(Saving, "the card was refused", {}, renew_at_every_wait=renews)
    assert seen.runs > 1 if renews else seen.runs == 1
    assert seen.attention == seen.status.attention == "the card was refused"


ONCE = Effect[str, int]("once", timeout=timedelta(seconds=5), doubt=Escalate())


@workflow.defn(name="waiting-on")
class WaitingOn(Lifecycle[str, Course]):
    """Waits in the same state after its effect."""

    effects = (ONCE,)

    @workflow.run
    async def run(self, given: str) -> None:
        await self.perform(ONCE, given)
        await self.retry_requested()


@pytest.mark.parametrize("renews", [False, True])
async def test_a_doubt_that_is_over_needs_no_person_any_more(renews: bool) -> None:
    late = Late(7, after=timedelta(minutes=5))
    seen = await rehearse(WaitingOn, "a", {ONCE: [late]}, renew_at_every_wait=renews)
    assert [each.status for each in seen.effects.values()] == [EffectStatus.DONE]
    assert seen.runs > 1 if renews else seen.runs == 1
    assert seen.attention is seen.status.attention is None


def test_the_record_of_a_state_has_the_one_before_it_only_if_it_needs_a_person() -> None:
    steps = [["enter", "s1"], ["enter", "held"], ["perform", "repeat", "p1", {"then": "s2"}], ["messages", 1]]
    world = of_random_lifecycles().world(Scenario(seed=1, given=Program(steps=steps)))
    before = {
        each.state: (each.memory or {}).get("came_from") for each in world.database.moves(Entity("explored", "1"))
    }
    assert before == {"starting": None, "s1": None, "held": "s1", "s2": None, "ended": None}


@workflow.defn(name="three-branches")
class ThreeBranches(Lifecycle[Booking, Leg]):
    """One branch enters a state when the call of another is over, and the last one waits for a time."""

    effects = (REGULAR["repeat"],)

    @workflow.run
    async def run(self, booking: Booking) -> None:
        """All branches, and then the end."""
        self.is_over = False
        await asyncio.gather(self._call(booking), self._enter(), self._wait())
        await self.enter(Leg.STOPPED)
        await self.enter(Leg.THERE)

    async def _call(self, booking: Booking) -> None:
        await self.perform(REGULAR["repeat"], booking)
        self.is_over = True

    async def _enter(self) -> None:
        await self.wait_for(lambda: self.is_over)
        await self.enter(Leg.OUT)

    async def _wait(self) -> None:
        assert not await self.wait_for(lambda: False, until=START + DAY)


async def test_a_wait_goes_on_where_another_branch_writes_a_state_instead_of_a_new_run() -> None:
    replies = {REGULAR["repeat"]: [Ticket(number=1)]}
    seen = await rehearse(ThreeBranches, Booking(), replies, renew_at_every_wait=True)
    assert seen.states == [Leg.OUT, Leg.STOPPED, Leg.THERE]
    assert seen.took == DAY
