"""Bookings whose doubt policy is `repeat`, both ways. Few in a file: the sandbox imports it again for every run."""

from __future__ import annotations

from temporalio import workflow

from perdure import AppColumn
from tests.apps.booking import BookingLifecycle
from tests.apps.contracts import INLINE, REGULAR, Booking


@workflow.defn(name="repeat")
class Repeat(BookingLifecycle):
    """Repeat."""

    effects = (REGULAR["repeat"],)
    mirror = AppColumn("booking", column="state")

    @workflow.run
    async def run(self, booking: Booking) -> None:
        """See the base class."""
        await self.do_it(booking)


@workflow.defn(name="repeat-inline")
class RepeatInline(BookingLifecycle):
    """Repeat, inline."""

    effects = (INLINE["repeat"],)
    mirror = AppColumn("booking", column="state")

    @workflow.run
    async def run(self, booking: Booking) -> None:
        """See the base class."""
        await self.do_it(booking)
