"""Lifecycles that come to grief in all the ways that a reconciliation knows."""

from __future__ import annotations

from enum import StrEnum
from typing import Any

from temporalio import workflow

from perdure import App, AppColumn, Lifecycle, state
from tests.apps.booking import BookingLifecycle
from tests.apps.calls import bound
from tests.apps.contracts import INLINE, REGULAR, Booking
from tests.apps.kinds.counter import Counter
from tests.apps.kinds.escalate import Escalate
from tests.apps.kinds.lookup import LookupBooking, LookupInline


class Stay(StrEnum):
    """Where it is."""

    IN = "in"
    OUT = state("out", final=True)


class _Waiting(Lifecycle[Booking, Stay]):
    """Waits until it is told to go."""

    def __init__(self) -> None:
        self.told = False

    async def stay(self) -> None:
        """Until it is told."""
        await self.wait_for(lambda: self.told)
        await self.enter(Stay.OUT, why="told to")

    @workflow.signal
    def go(self) -> None:
        """Go."""
        self.told = True


@workflow.defn(name="staying")
class Staying(_Waiting):
    """If it is ended, a person is wanted."""

    mirror = AppColumn("booking", column="state")

    @workflow.run
    async def run(self, booking: Booking) -> None:
        """Stay."""
        await self.stay()


@workflow.defn(name="stubborn")
class Stubborn(_Waiting):
    """If it is ended, it is started again."""

    if_ended = "again"

    @workflow.run
    async def run(self, booking: Booking) -> None:
        """Stay."""
        await self.stay()


@workflow.defn(name="odd")
class Odd(_Waiting):
    """Asks for a reconciliation of itself."""

    @workflow.run
    async def run(self, booking: Booking) -> None:
        """Ask, and stay."""
        self.ask_for_reconciliation("it looks odd here")
        await self.stay()


@workflow.defn(name="faulty", sandboxed=False)
class Faulty(Lifecycle[Booking, Stay]):
    """Its code is wrong."""

    @workflow.run
    async def run(self, booking: Booking) -> None:
        """Fail."""
        raise LookupError("the recipient is bob@example.org")


@workflow.defn(name="lookup")
class OtherLookup(BookingLifecycle):
    """Today's code, that follows no history of before."""

    effects = (REGULAR["lookup"],)

    @workflow.run
    async def run(self, booking: Booking) -> None:
        """Rest first."""
        await workflow.sleep(1)
        await self.do_it(booking)


_lifecycles: list[type[Lifecycle[Any, Any]]] = [
    Staying,
    Stubborn,
    Odd,
    Faulty,
    Counter,
    Escalate,
    LookupBooking,
    LookupInline,
]
_effects = [
    *bound({name: REGULAR[name] for name in ("lookup", "escalate")}),
    *bound({"lookup": INLINE["lookup"]}),
]
app = App(lifecycles=_lifecycles, effects=_effects)
other_app = App(
    lifecycles=[OtherLookup, *(each for each in _lifecycles if each is not LookupBooking)], effects=_effects
)
"""After a deploy of code that does not fit."""
