"""A run that goes on in a new one starts from its top, and comes to where it was without entering a state again."""

from __future__ import annotations

from datetime import timedelta
from enum import StrEnum

from temporalio import workflow

from perdure import Lifecycle, state
from perdure.testing import START, At, rehearse
from tests.apps.contracts import Errand

DAY = timedelta(days=1)


class Leg(StrEnum):
    """How far a journey is."""

    HOME = "home"
    OUT = "out"
    STOPPED = "stopped"
    THERE = "there"


@workflow.defn(name="journey")
class Journey(Lifecycle[Errand, Leg]):
    """Waits for a time before each state, and for a word before the last one."""

    states = (
        state(Leg.HOME, Leg.OUT),
        state(Leg.OUT, Leg.STOPPED),
        state(Leg.STOPPED, Leg.THERE),
        state(Leg.THERE),
    )

    def __init__(self) -> None:
        self.told = False

    @workflow.run
    async def run(self, errand: Errand) -> None:
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
    seen = await rehearse(Journey, Errand(), {}, messages=[At(5 * DAY, "tell")], renew_at_every_wait=True)
    assert seen.runs > 2
    assert seen.states == [Leg.OUT, Leg.STOPPED, Leg.THERE]
    assert seen.took == 5 * DAY
