"""Bookings that workers of another task queue do, beside those that keep to a limit."""

from __future__ import annotations

from datetime import timedelta

from temporalio import workflow

from perdure import App, Effect, Escalate
from tests.apps.booking import BookingLifecycle
from tests.apps.calls import bound
from tests.apps.contracts import QUICK, Booking, Ticket
from tests.apps.limited import DO, Limited

MAIL = "mail"
"""Another task queue."""
BY_MAIL = Effect[Booking, Ticket](
    "do-by-mail", timeout=timedelta(seconds=30), doubt=Escalate(), retry=QUICK, task_queue=MAIL
)


@workflow.defn(name="mailing")
class Mailing(BookingLifecycle):
    """Its effect is done elsewhere."""

    effects = (BY_MAIL,)

    @workflow.run
    async def run(self, booking: Booking) -> None:
        """See the base class."""
        await self.do_it(booking)


app = App(lifecycles=[Limited, Mailing], effects=bound({"lookup": DO, "escalate": BY_MAIL}))
