"""An app with a mistake that only a crash shows: its look-up never finds anything."""

from __future__ import annotations

from datetime import timedelta

from temporalio import workflow

from perdure import App, AppColumn, Attempt, Effect, Lookup, LookupContext
from perdure import AskFirst as ByLookUp
from tests.apps.booking import BookingLifecycle
from tests.apps.calls import do_booking
from tests.apps.contracts import QUICK, Booking, Ticket

FIND = Lookup[Booking, Ticket]("find-nothing", timeout=timedelta(seconds=5))
DO = Effect[Booking, Ticket](
    "do-forgetful",
    timeout=timedelta(seconds=2),
    doubt=ByLookUp(FIND, visibility_delay=timedelta(seconds=0.2), every=timedelta(seconds=0.2)),
    retry=QUICK,
    heartbeat_timeout=timedelta(seconds=2),
)


@FIND.answers
async def find_nothing(booking: Booking, question: LookupContext) -> Ticket | None:
    """Looks in the wrong place."""
    return None


@DO.performs
async def do_forgetful(booking: Booking, attempt: Attempt) -> Ticket:
    """Does it."""
    return await do_booking(booking, attempt)


@workflow.defn(name="forgetful")
class Forgetful(BookingLifecycle):
    """Trusts that look-up."""

    effects = (DO,)
    mirror = AppColumn("booking", column="state")

    @workflow.run
    async def run(self, booking: Booking) -> None:
        """See the base class."""
        await self.do_it(booking)


app = App(lifecycles=[Forgetful], effects=[do_forgetful, find_nothing])
