"""What all bookings are: their states, and how one is done."""

from __future__ import annotations

from datetime import timedelta
from enum import StrEnum

from temporalio import workflow

from perdure import Done, Expired, Lifecycle, NotPerformed, state
from tests.apps.contracts import Booking


class Way(StrEnum):
    """Where a booking is."""

    PENDING = state("pending", leads_to=("doing", "failed", "expired"))
    DOING = state("doing", within=timedelta(minutes=5))
    DONE = state("done", final=True)
    FAILED = state("failed", leads_to=("doing",), attention=True)
    EXPIRED = state("expired", final=True)
    CANCELLED = state("cancelled", cancelled=True)


class BookingLifecycle(Lifecycle[Booking, Way]):
    """What all bookings do; each subclass binds an effect."""

    async def do_it(self, booking: Booking) -> None:
        """Perform the first of its effects until it is done, or until nobody wants it any more."""
        expires_at = workflow.now() + timedelta(seconds=booking.seconds) if booking.seconds else None
        while True:
            match await self.perform(self.effects[0], booking, entering=Way.DOING, expires_at=expires_at):
                case Done(ticket):
                    return await self.enter(Way.DONE, why=f"ticket {ticket.number}")
                case Expired(why):
                    return await self.enter(Way.EXPIRED, why=why)
                case NotPerformed(why):
                    await self.enter(Way.FAILED, why=why)
                    await self.retry_requested()
