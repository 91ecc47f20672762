"""Editions that differ in their states, and in what `run` does."""

from __future__ import annotations

from datetime import timedelta
from enum import StrEnum
from typing import Any

from temporalio import workflow

from perdure import AppColumn, Done, Lifecycle, NotPerformed, state
from tests.apps.contracts import Errand
from tests.upgrades.editions import Editable, Step
from tests.upgrades.effects import NAME, contract


class Longer(StrEnum):
    """One step more."""

    PENDING = "pending"
    DOING = "doing"
    FAILED = "failed"
    CHECKED = "checked"
    DONE = "done"


@workflow.defn(name=NAME)
class OneMore(Lifecycle[Errand, Longer]):
    """What was done is checked before it ends."""

    states = (
        state(Longer.PENDING, Longer.DOING, Longer.FAILED),
        state(Longer.DOING, Longer.CHECKED, Longer.FAILED),
        state(Longer.FAILED, Longer.DOING, attention=True),
        state(Longer.CHECKED, Longer.DONE),
        state(Longer.DONE),
    )
    effects = (contract(),)

    @workflow.run
    async def run(self, errand: Errand) -> None:
        """As before, and one step more."""
        await self.wait_for(lambda: self.told)
        while True:
            match await self.perform(self.effects[0], errand, entering=Longer.DOING):
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


class Other(StrEnum):
    """The same steps, one with another name."""

    PENDING = "pending"
    SENDING = "sending"
    FAILED = "failed"
    DONE = "done"


class _Sending(Lifecycle[Errand, Other]):
    def __init__(self) -> None:
        self.told = False

    @workflow.signal
    def go(self) -> None:
        """Begin."""
        self.told = True

    async def lead(self, errand: Errand) -> None:
        """As before, with another name for one state."""
        await self.wait_for(lambda: self.told)
        while True:
            match await self.perform(self.effects[0], errand, entering=Other.SENDING):
                case Done():
                    return await self.enter(Other.DONE)
                case NotPerformed(why):
                    await self.enter(Other.FAILED, why=why)
                    await self.retry_requested()


@workflow.defn(name=NAME)
class Renamed(_Sending):
    """And it says so."""

    states = (
        state(Other.PENDING, Other.SENDING, Other.FAILED),
        state(Other.SENDING, Other.DONE, Other.FAILED, aliases=("doing",)),
        state(Other.FAILED, Other.SENDING, attention=True),
        state(Other.DONE),
    )
    effects = (contract(),)

    @workflow.run
    async def run(self, errand: Errand) -> None:
        """See the base class."""
        await self.lead(errand)


@workflow.defn(name=NAME)
class RenamedInSilence(_Sending):
    """And it does not say so: to the worker that is a state removed and one added."""

    states = (
        state(Other.PENDING, Other.SENDING, Other.FAILED),
        state(Other.SENDING, Other.DONE, Other.FAILED),
        state(Other.FAILED, Other.SENDING, attention=True),
        state(Other.DONE),
    )
    effects = (contract(),)

    @workflow.run
    async def run(self, errand: Errand) -> None:
        """See the base class."""
        await self.lead(errand)


@workflow.defn(name=NAME)
class Shown(Editable):
    """In a column of the app, and with a time that it should last."""

    states = (
        state(Step.PENDING, Step.DOING, Step.FAILED, Step.CANCELLED),
        state(Step.DOING, Step.DONE, Step.FAILED, within=timedelta(minutes=5)),
        state(Step.FAILED, Step.DOING, attention=True, within=timedelta(minutes=1)),
        state(Step.DONE),
        state(Step.CANCELLED),
    )
    effects = (contract(),)
    mirror = AppColumn("errand", column="state")

    @workflow.run
    async def run(self, errand: Errand) -> None:
        """See the base class."""
        await self.lead(errand)


@workflow.defn(name=NAME)
class ShownElsewhere(Editable):
    """In another column."""

    states = Shown.states
    effects = (contract(),)
    mirror = AppColumn("errand", column="shown")

    @workflow.run
    async def run(self, errand: Errand) -> None:
        """See the base class."""
        await self.lead(errand)


class _Walk(Lifecycle[Errand, Any]):
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

    states = (
        state(Step.PENDING, Step.DOING, Step.FAILED, Step.CANCELLED),
        state(Step.DOING, Step.DONE),
        state(Step.DONE),
        state(Step.FAILED),
        state(Step.CANCELLED),
    )
    effects = ()

    @workflow.run
    async def run(self, errand: Errand) -> None:
        """See the base class."""
        await self.walk(Step.DOING, Step.DONE)


@workflow.defn(name="walk")
class WalkRenamed(_Walk):
    """With another name for being on its way."""

    states = (
        state(Other.PENDING, Other.SENDING, Other.FAILED),
        state(Other.SENDING, Other.DONE, aliases=("doing",)),
        state(Other.DONE),
        state(Other.FAILED),
    )
    effects = ()

    @workflow.run
    async def run(self, errand: Errand) -> None:
        """See the base class."""
        await self.walk(Other.SENDING, Other.DONE)


@workflow.defn(name="walk")
class WalkRenamedInSilence(_Walk):
    """And it does not say so."""

    states = (
        state(Other.PENDING, Other.SENDING, Other.FAILED),
        state(Other.SENDING, Other.DONE),
        state(Other.DONE),
        state(Other.FAILED),
    )
    effects = ()

    @workflow.run
    async def run(self, errand: Errand) -> None:
        """See the base class."""
        await self.walk(Other.SENDING, Other.DONE)
