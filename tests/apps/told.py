"""`told`: a booking that is made once somebody says so. Until then, it waits without a timer."""

from __future__ import annotations

from temporalio import workflow

from perdure import App, Attempt
from tests.apps.booking import BookingLifecycle
from tests.apps.calls import do_booking
from tests.apps.contracts import INLINE, Booking, Ticket


@workflow.defn(name="told")
class Told(BookingLifecycle):
    """Waits, and does it inline."""

    effects = (INLINE["escalate"],)

    def __init__(self) -> None:
        self.told = 0

    @workflow.run
    async def run(self, booking: Booking) -> None:
        """See the class."""
        await self.wait_for(lambda: self.told > 0)
        await self.do_it(booking)

    @workflow.signal
    def go(self) -> None:
        """Do it."""
        self.told += 1


@INLINE["escalate"].performs
async def book(booking: Booking, attempt: Attempt) -> Ticket:
    """Ask the counterparty to do it."""
    return await do_booking(booking, attempt)


app = App([Told], [book])
