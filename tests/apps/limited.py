"""Bookings that keep to a limit, at a counterparty with one account: effect and look-up share it. And one without."""

from __future__ import annotations

from datetime import timedelta

from temporalio import workflow

from perdure import App, AskFirst, Effect, Lookup
from perdure.contracts import RateLimit
from tests.apps.booking import BookingLifecycle
from tests.apps.calls import bound
from tests.apps.contracts import QUICK, REGULAR, Booking, Ticket

ACCOUNT = RateLimit("account", per_second=10)
FIND = Lookup[Booking, Ticket]("find-limited", timeout=timedelta(seconds=5), limit=ACCOUNT)
DO = Effect[Booking, Ticket](
    "do-limited",
    timeout=timedelta(seconds=30),
    doubt=AskFirst(FIND, visibility_delay=timedelta(seconds=0.5), every=timedelta(seconds=0.05), tries=None),
    retry=QUICK,
    heartbeat_timeout=timedelta(seconds=2),
    limit=ACCOUNT,
)


@workflow.defn(name="limited")
class Limited(BookingLifecycle):
    """Keeps to it."""

    effects = (DO,)

    @workflow.run
    async def run(self, booking: Booking) -> None:
        """See the base class."""
        await self.do_it(booking)


@workflow.defn(name="unlimited")
class Unlimited(BookingLifecycle):
    """Keeps to none."""

    effects = (REGULAR["lookup"],)

    @workflow.run
    async def run(self, booking: Booking) -> None:
        """See the base class."""
        await self.do_it(booking)


app = App(lifecycles=[Limited, Unlimited], effects=[*bound({"lookup": DO}), *bound({"lookup": REGULAR["lookup"]})])
