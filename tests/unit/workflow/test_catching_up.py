"""A run that goes on in a new one starts from its top, and comes to where it was: nothing is redone or forgotten."""

from __future__ import annotations

from datetime import timedelta
from enum import StrEnum

from temporalio import workflow

from perdure import Lifecycle, OperatorRequest, state
from perdure._wire.status import LifecycleStatus
from perdure.contracts import EffectStatus
from perdure.testing import START, At, When, WorkerLost, rehearse
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
