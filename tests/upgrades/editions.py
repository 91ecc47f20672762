"""What the lifecycles of these tests share, and how an edition of one becomes an app."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from typing import Any

from temporalio import workflow

from perdure import App, Attempt, Done, Effect, Lifecycle, Lookup, LookupContext, NotPerformed, state
from tests.apps.calls import do_booking, find_booking
from tests.apps.contracts import Booking, Ticket


class Step(StrEnum):
    """Where it is."""

    PENDING = "pending"
    DOING = "doing"
    FAILED = state("failed", attention=True)
    DONE = state("done", final=True)
    CANCELLED = state("cancelled", cancelled=True)


class Editable(Lifecycle[Booking, Step]):
    """Waits for `go`, performs its only effect until it is done, and ends."""

    def __init__(self) -> None:
        self.told = False

    @workflow.signal
    def go(self) -> None:
        """Begin."""
        self.told = True

    async def lead(self, booking: Booking) -> None:
        """What most editions do."""
        await self.wait_for(lambda: self.told)
        while True:
            match await self.perform(self.effects[0], booking, entering=Step.DOING):
                case Done():
                    return await self.enter(Step.DONE)
                case NotPerformed(why):
                    await self.enter(Step.FAILED, why=why)
                    await self.retry_requested()


def edition(lifecycle: type[Lifecycle[Any, Any]]) -> App:
    """An app with this one lifecycle, whose effects are bookings."""
    finds = dict.fromkeys(effect.lookup for effect in lifecycle.effects if effect.lookup is not None)
    return App([lifecycle], [*map(_does, lifecycle.effects), *map(_finds, finds)])


def _does(effect: Effect[Any, Any]) -> Callable[..., Any]:
    async def body(booking: Booking, attempt: Attempt) -> Ticket:
        return await do_booking(booking, attempt)

    return effect.performs(body)


def _finds(find: Lookup[Any, Any]) -> Callable[..., Any]:
    async def body(booking: Booking, question: LookupContext) -> Ticket | None:
        return await find_booking(booking, question)

    return find.answers(body)
