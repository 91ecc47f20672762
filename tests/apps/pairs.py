"""A lifecycle with two effects, one after the other. A person deals with each doubt and each refusal."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from enum import StrEnum
from typing import Any

from temporalio import workflow

from perdure import App, Attempt, Done, Effect, Escalate, Lifecycle, state
from tests.apps.calls import do_booking
from tests.apps.contracts import QUICK, Booking, Ticket

SECONDS = timedelta(seconds=2)
RESERVE = Effect[Booking, Ticket]("reserve-seat", timeout=SECONDS, doubt=Escalate(), retry=QUICK)
CHARGE = Effect[Booking, Ticket]("charge-card", timeout=SECONDS, doubt=Escalate(), retry=QUICK)


class Way(StrEnum):
    """Where it is."""

    RESERVING = "reserving"
    CHARGING = "charging"
    DONE = state("done", final=True)
    FAILED = state("failed", leads_to=("reserving", "charging"), attention=True)
    CANCELLED = state("cancelled", cancelled=True)


@workflow.defn(name="pair", sandboxed=False)
class Pair(Lifecycle[Booking, Way]):
    """Reserve, then charge."""

    effects = (RESERVE, CHARGE)

    @workflow.run
    async def run(self, booking: Booking) -> None:
        """Perform both."""
        for effect, here in ((RESERVE, Way.RESERVING), (CHARGE, Way.CHARGING)):
            while not isinstance(await self.perform(effect, booking, entering=here), Done):
                await self.enter(Way.FAILED, why=f"{effect.name} was refused")
                await self.retry_requested()
        await self.enter(Way.DONE)


def _does(effect: Effect[Booking, Ticket]) -> Callable[..., Any]:
    async def body(booking: Booking, attempt: Attempt) -> Ticket:
        return await do_booking(booking, attempt)

    return effect.performs(body)


app = App([Pair], [_does(RESERVE), _does(CHARGE)])
