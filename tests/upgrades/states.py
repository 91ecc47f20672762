"""Editions that differ in their states, and in what `run` does."""

from __future__ import annotations

from datetime import timedelta
from enum import StrEnum
from typing import Any

from temporalio import workflow

from perdure import AppColumn, Done, Lifecycle, NotPerformed, state
from tests.apps.contracts import Booking
from tests.upgrades.editions import Editable
from tests.upgrades.effects import NAME, contract


class Longer(StrEnum):
    """One step more."""

    PENDING = state("pending", leads_to=("doing", "failed"))
    DOING = state("doing", leads_to=("checked", "failed"))
    FAILED = state("failed", leads_to=("doing",), attention=True)
    CHECKED = "checked"
    DONE = state("done", final=True)


@workflow.defn(name=NAME)
class OneMore(Lifecycle[Booking, Longer]):
    """What was done is checked before it ends."""

    effects = (contract(),)

    @workflow.run
    async def run(self, booking: Booking) -> None:
        """As before, and one step more."""
        await self.wait_for(lambda: self.told)
        while True:
            match await self.perform(self.effects[0], booking, entering=Longer.DOING):
                case Done():
                    await self.enter(Longer.CHECKED)
                    return await self.enter(Longer.DONE)
                case NotPerformed(why):
                    await self.enter(Longer.FAILED, why=why)
                    await self.retry_requested()

    def __init__(self) -> None:
        self.told = False

    @workflow.signal
    def go(self) -> None:
        """Begin."""
        self.told = True


class Weighed(StrEnum):
    """One step more, before the others."""

    PENDING = "pending"
    WEIGHED = "weighed"
    DOING = "doing"
    FAILED = state("failed", attention=True)
    DONE = state("done", final=True)


@workflow.defn(name=NAME)
class Weighing(Lifecycle[Booking, Weighed]):
    """Stays in the new step."""

    effects = (contract(),)

    @workflow.run
    async def run(self, booking: Booking) -> None:
        """Enter it."""
        await self.enter(Weighed.WEIGHED)
        await self.wait_for(lambda: False)


class Other(StrEnum):
    """The same steps, one with another name."""

    PENDING = state("pending", leads_to=("sending", "failed"))
    SENDING = state("sending", aliases=("doing",))
    FAILED = state("failed", leads_to=("sending",), attention=True)
    DONE = state("done", final=True)


class OtherInSilence(StrEnum):
    """The same, without the former name."""

    PENDING = state("pending", leads_to=("sending", "failed"))
    SENDING = "sending"
    FAILED = state("failed", leads_to=("sending",), attention=True)
    DONE = state("done", final=True)


class Timed(StrEnum):
    """The steps as they were, with times that they should last."""

    PENDING = "pending"
    DOING = state("doing", within=timedelta(minutes=5))
    FAILED = state("failed", attention=True, within=timedelta(minutes=1))
    DONE = state("done", final=True)
    CANCELLED = state("cancelled", final=True)


class Calm(StrEnum):
    """The steps as they were, and none of them needs a person."""

    PENDING = "pending"
    DOING = "doing"
    FAILED = state("failed", leads_to=("doing",))
    DONE = state("done", final=True)
    CANCELLED = state("cancelled", final=True)


class _Sending(Lifecycle[Booking, Any]):
    def __init__(self) -> None:
        self.told = False

    @workflow.signal
    def go(self) -> None:
        """Begin."""
        self.told = True

    async def lead(self, booking: Booking) -> None:
        """As before, with another name for one state."""
        await self.wait_for(lambda: self.told)
        while True:
            match await self.perform(self.effects[0], booking, entering=Other.SENDING):
                case Done():
                    return await self.enter(Other.DONE)
                case NotPerformed(why):
                    await self.enter(Other.FAILED, why=why)
                    await self.retry_requested()


@workflow.defn(name=NAME)
class Renamed(_Sending):
    """And it says so."""

    states = Other
    effects = (contract(),)

    @workflow.run
    async def run(self, booking: Booking) -> None:
        """See the base class."""
        await self.lead(booking)


@workflow.defn(name=NAME)
class RenamedInSilence(_Sending):
    """And it does not say so: to the worker that is a state removed and one added."""

    states = OtherInSilence
    effects = (contract(),)

    @workflow.run
    async def run(self, booking: Booking) -> None:
        """See the base class."""
        await self.lead(booking)


@workflow.defn(name=NAME)
class Shown(Editable):
    """In a column of the app, and with a time that it should last."""

    states = Timed
    effects = (contract(),)
    mirror = AppColumn("booking", column="state")

    @workflow.run
    async def run(self, booking: Booking) -> None:
        """See the base class."""
        await self.lead(booking)


@workflow.defn(name=NAME)
class ShownElsewhere(Editable):
    """In another column."""

    states = Timed
    effects = (contract(),)
    mirror = AppColumn("booking", column="shown")

    @workflow.run
    async def run(self, booking: Booking) -> None:
        """See the base class."""
        await self.lead(booking)


class Walking(StrEnum):
    """How far a walk is."""

    PENDING = "pending"
    DOING = "doing"
    DONE = state("done", final=True)


class WalkingOther(StrEnum):
    """With another name for being on its way."""

    PENDING = "pending"
    SENDING = state("sending", aliases=("doing",))
    DONE = state("done", final=True)


class WalkingOtherInSilence(StrEnum):
    """The same, without the former name."""

    PENDING = "pending"
    SENDING = "sending"
    DONE = state("done", final=True)


class _Walk(Lifecycle[Booking, Any]):
    """Is on its way until it is told `go`; goes on in a new run when told `continue_as_new`."""

    def __init__(self) -> None:
        self.word = ""

    @workflow.signal
    def tell(self, word: str) -> None:
        """What to do."""
        self.word = word

    async def walk(self, on_the_way: Any, there: Any) -> None:
        """What both editions do."""
        await self.enter(on_the_way)
        while self.word != "go":
            await self.wait_for(lambda: self.word in ("go", "renew"))
            if self.word == "renew":
                await self.continue_as_new()
        await self.enter(there)


@workflow.defn(name="walk")
class Walk(_Walk):
    """As it was."""

    states = Walking
    effects = ()

    @workflow.run
    async def run(self, booking: Booking) -> None:
        """See the base class."""
        await self.walk(Walking.DOING, Walking.DONE)


@workflow.defn(name="walk")
class WalkRenamed(_Walk):
    """With another name for being on its way."""

    states = WalkingOther
    effects = ()

    @workflow.run
    async def run(self, booking: Booking) -> None:
        """See the base class."""
        await self.walk(WalkingOther.SENDING, WalkingOther.DONE)


@workflow.defn(name="walk")
class WalkRenamedInSilence(_Walk):
    """And it does not say so."""

    states = WalkingOtherInSilence
    effects = ()

    @workflow.run
    async def run(self, booking: Booking) -> None:
        """See the base class."""
        await self.walk(WalkingOtherInSilence.SENDING, WalkingOtherInSilence.DONE)


@workflow.defn(name=NAME)
class Unattended(_Sending):
    """It leads as before, through states of which none needs a person."""

    states = Calm
    effects = (contract(),)

    @workflow.run
    async def run(self, booking: Booking) -> None:
        """See the base class."""
        await self.wait_for(lambda: self.told)
        while True:
            match await self.perform(self.effects[0], booking, entering=Calm.DOING):
                case Done():
                    return await self.enter(Calm.DONE)
                case NotPerformed(why):
                    await self.enter(Calm.FAILED, why=why)
                    await self.retry_requested()
