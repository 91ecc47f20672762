"""Editions that differ in the calls that `run` makes, and in their order."""

from __future__ import annotations

import asyncio
from datetime import timedelta

from temporalio import workflow

from tests.apps.contracts import Booking
from tests.upgrades.editions import Editable, Step
from tests.upgrades.effects import NAME, contract

SEND = contract()
ANNOUNCE = contract("announce-parcel")


@workflow.defn(name=NAME)
class Inserted(Editable):
    """A call comes before all others, also where the run is past it."""

    effects = (SEND, ANNOUNCE)

    @workflow.run
    async def run(self, booking: Booking) -> None:
        """See the base class."""
        await self.perform(ANNOUNCE, booking)
        await self.lead(booking)


@workflow.defn(name=NAME)
class Patched(Editable):
    """A call comes before all others, but not where the run is past it."""

    effects = (SEND, ANNOUNCE)

    @workflow.run
    async def run(self, booking: Booking) -> None:
        """See the base class."""
        if workflow.patched("announce"):
            await self.perform(ANNOUNCE, booking)
        await self.lead(booking)


@workflow.defn(name=NAME)
class EnterInserted(Editable):
    """A change of state comes first."""

    effects = (SEND, ANNOUNCE)

    @workflow.run
    async def run(self, booking: Booking) -> None:
        """See the base class."""
        await self.enter(Step.DOING)
        await self.lead(booking)


@workflow.defn(name=NAME)
class WaitInserted(Editable):
    """A wait with an end comes first."""

    effects = (SEND, ANNOUNCE)

    @workflow.run
    async def run(self, booking: Booking) -> None:
        """See the base class."""
        await self.wait_for(lambda: False, until=workflow.now() + timedelta(seconds=1))
        await self.lead(booking)


@workflow.defn(name=NAME)
class SaveInserted(Editable):
    """A snapshot comes first."""

    effects = (SEND, ANNOUNCE)

    @workflow.run
    async def run(self, booking: Booking) -> None:
        """See the base class."""
        await self.save()
        await self.lead(booking)


@workflow.defn(name=NAME)
class SleepInserted(Editable):
    """A pause comes first."""

    effects = (SEND, ANNOUNCE)

    @workflow.run
    async def run(self, booking: Booking) -> None:
        """See the base class."""
        await asyncio.sleep(1)
        await self.lead(booking)


@workflow.defn(name=NAME)
class Removed(Editable):
    """The call that came first is not made any more."""

    effects = (SEND, ANNOUNCE)

    @workflow.run
    async def run(self, booking: Booking) -> None:
        """See the base class."""
        await self.lead(booking)


@workflow.defn(name=NAME)
class RemovedByPatch(Editable):
    """It is made only where it was made before."""

    effects = (SEND, ANNOUNCE)

    @workflow.run
    async def run(self, booking: Booking) -> None:
        """See the base class."""
        if not workflow.patched("not announced"):
            await self.perform(ANNOUNCE, booking)
        await self.lead(booking)


@workflow.defn(name=NAME)
class Swapped(Editable):
    """It comes last."""

    effects = (SEND, ANNOUNCE)

    @workflow.run
    async def run(self, booking: Booking) -> None:
        """See the base class."""
        await self.wait_for(lambda: self.told)
        await self.perform(SEND, booking, entering=Step.DOING)
        await self.perform(ANNOUNCE, booking)
        await self.enter(Step.DONE)


@workflow.defn(name=NAME)
class SwappedByPatch(Editable):
    """It comes last, but where it was made already."""

    effects = (SEND, ANNOUNCE)

    @workflow.run
    async def run(self, booking: Booking) -> None:
        """See the base class."""
        last = workflow.patched("announced last")
        if not last:
            await self.perform(ANNOUNCE, booking)
            await self.lead(booking)
            return
        await self.wait_for(lambda: self.told)
        await self.perform(SEND, booking, entering=Step.DOING)
        await self.perform(ANNOUNCE, booking)
        await self.enter(Step.DONE)
