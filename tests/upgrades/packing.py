"""Editions of a lifecycle that is open after its effect was done; with `then=`, without it, and under other names."""

from __future__ import annotations

from datetime import timedelta
from enum import StrEnum

from temporalio import workflow

from perdure import Lifecycle, state
from tests.apps.contracts import Booking
from tests.upgrades.effects import contract

NAME = "packing"


class Step(StrEnum):
    """Where it is."""

    PENDING = "pending"
    PACKING = "packing"
    PACKED = "packed"
    DONE = state("done", final=True)


class _Packing(Lifecycle[Booking, Step]):
    """Packs, waits for `go`, and ends."""

    def __init__(self) -> None:
        self.told = False

    @workflow.signal
    def go(self) -> None:
        """End."""
        self.told = True

    async def entering(self, booking: Booking) -> None:
        """The state that follows is a write of its own."""
        await self.perform(self.effects[0], booking, entering=Step.PACKING)
        await self.enter(Step.PACKED)

    async def then(self, booking: Booking) -> None:
        """The state that follows is on record with the outcome."""
        await self.perform(self.effects[0], booking, entering=Step.PACKING, then=Step.PACKED)

    async def send(self) -> None:
        """What comes after it: a wait that has an end, so that the history has a call past the place of the edit."""
        await self.wait_for(lambda: self.told, until=workflow.now() + timedelta(hours=1))
        await self.enter(Step.DONE)


@workflow.defn(name=NAME)
class Entering(_Packing):
    """As it was before there was `then`."""

    effects = (contract(),)

    @workflow.run
    async def run(self, booking: Booking) -> None:
        """See the base class."""
        await self.entering(booking)
        await self.send()


@workflow.defn(name=NAME)
class Then(_Packing):
    """With it."""

    effects = (contract(),)

    @workflow.run
    async def run(self, booking: Booking) -> None:
        """See the base class."""
        await self.then(booking)
        await self.send()


@workflow.defn(name=NAME)
class ThenNoMore(_Packing):
    """Without it again, but where it was."""

    effects = (contract(),)

    @workflow.run
    async def run(self, booking: Booking) -> None:
        """See the base class."""
        if workflow.patched("without then"):
            await self.entering(booking)
        else:
            await self.then(booking)
        await self.send()


@workflow.defn(name=NAME)
class Renamed(_Packing):
    """The effect has another name, and says so."""

    effects = (contract("post-parcel", aliases=("send-parcel",)),)

    @workflow.run
    async def run(self, booking: Booking) -> None:
        """See the base class."""
        await self.entering(booking)
        await self.send()


@workflow.defn(name=NAME)
class RenamedInSilence(_Packing):
    """The effect has another name, and does not say so."""

    effects = (contract("post-parcel"),)

    @workflow.run
    async def run(self, booking: Booking) -> None:
        """See the base class."""
        await self.entering(booking)
        await self.send()
