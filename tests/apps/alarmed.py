"""Lifecycles that give each alert its reason."""

from __future__ import annotations

from datetime import timedelta

from temporalio import workflow

from perdure import App, Attempt, Effect, Escalate
from tests.apps import failing
from tests.apps.booking import BookingLifecycle
from tests.apps.calls import bound
from tests.apps.contracts import REGULAR, Booking, Ticket
from tests.apps.kinds.escalate import Escalate as EscalateBooking
from tests.apps.kinds.lookup import LookupBooking

NOWHERE = Effect[Booking, Ticket]("do-nowhere", timeout=timedelta(seconds=5), doubt=Escalate(), task_queue="nowhere")


@workflow.defn(name="nowhere")
class Nowhere(BookingLifecycle):
    """Its effect is for a task queue that no worker polls."""

    effects = (NOWHERE,)

    @workflow.run
    async def run(self, booking: Booking) -> None:
        """See the base class."""
        await self.do_it(booking)


@NOWHERE.performs
async def do_nowhere(booking: Booking, attempt: Attempt) -> Ticket:
    """Nobody does."""
    raise AssertionError


app = App(
    lifecycles=[failing.Staying, failing.Stubborn, failing.Faulty, EscalateBooking, LookupBooking, Nowhere],
    effects=[*bound({name: REGULAR[name] for name in ("lookup", "escalate")}), do_nowhere],
)
