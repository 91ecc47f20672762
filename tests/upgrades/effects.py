"""Editions that differ in an effect's contract."""

from __future__ import annotations

from typing import Any

from temporalio import workflow

from perdure import Dedupe, Effect, Escalate, Find, Limit, Lookup, Repeat, Retry, minutes, seconds
from perdure.contracts.policies import DoubtPolicy
from tests.apps.contracts import Errand, Ticket
from tests.upgrades.editions import STATES, Editable

NAME = "parcel"
SOON = Retry(initial=seconds(0.1), cap=seconds(0.3))
FIND = Find[Errand, Ticket]("find-parcel", timeout=seconds(5))
SEEK = Find[Errand, Ticket]("seek-parcel", timeout=seconds(5), formerly=("find-parcel",))
ELSEWHERE = "parcels-elsewhere"
"""Another task queue."""


def contract(name: str = "send-parcel", **more: Any) -> Effect[Errand, Ticket]:
    """One that escalates, but for what `more` says."""
    usual: dict[str, Any] = {"timeout": seconds(1), "doubt": Escalate(), "retry": SOON, "heartbeat": seconds(2)}
    return Effect[Errand, Ticket](name, **(usual | more))


def looking(
    misses: int = 1, settle: float = 0.2, find: Find[Errand, Ticket] = FIND, **more: Any
) -> DoubtPolicy[Errand, Ticket]:
    """Asks, and goes on asking."""
    return Lookup(find, settle=seconds(settle), misses=misses, every=seconds(0.03), **more)


@workflow.defn(name=NAME)
class Escalating(Editable):
    """As it was before."""

    states = STATES
    effects = (contract(),)

    @workflow.run
    async def run(self, errand: Errand) -> None:
        """See the base class."""
        await self.lead(errand)


@workflow.defn(name=NAME)
class Repeating(Editable):
    """A repeat is harmless after all."""

    states = STATES
    effects = (contract(doubt=Repeat()),)

    @workflow.run
    async def run(self, errand: Errand) -> None:
        """See the base class."""
        await self.lead(errand)


@workflow.defn(name=NAME)
class Deduping(Editable):
    """The other side drops repeats."""

    states = STATES
    effects = (contract(doubt=Dedupe(window=minutes(5), margin=seconds(1))),)

    @workflow.run
    async def run(self, errand: Errand) -> None:
        """See the base class."""
        await self.lead(errand)


@workflow.defn(name=NAME)
class Asking(Editable):
    """The other side can be asked: one miss is enough."""

    states = STATES
    effects = (contract(doubt=looking(), timeout=seconds(1)),)

    @workflow.run
    async def run(self, errand: Errand) -> None:
        """See the base class."""
        await self.lead(errand)


@workflow.defn(name=NAME)
class AskingLonger(Editable):
    """It takes four misses."""

    states = STATES
    effects = (contract(doubt=looking(misses=4), timeout=seconds(1)),)

    @workflow.run
    async def run(self, errand: Errand) -> None:
        """See the base class."""
        await self.lead(errand)


@workflow.defn(name=NAME)
class AskingUnderAnotherName(Editable):
    """The look-up has another name, and says so; it takes four misses."""

    states = STATES
    effects = (contract(doubt=looking(misses=4, find=SEEK)),)

    @workflow.run
    async def run(self, errand: Errand) -> None:
        """See the base class."""
        await self.lead(errand)


@workflow.defn(name=NAME)
class AskingForAnHour(Editable):
    """No miss counts for an hour."""

    states = STATES
    effects = (contract(doubt=looking(settle=3600)),)

    @workflow.run
    async def run(self, errand: Errand) -> None:
        """See the base class."""
        await self.lead(errand)


@workflow.defn(name=NAME)
class AskingForEver(Editable):
    """A look-up that can't answer is tried again, ten thousand times."""

    states = STATES
    effects = (contract(doubt=looking(tries=10_000)),)

    @workflow.run
    async def run(self, errand: Errand) -> None:
        """See the base class."""
        await self.lead(errand)


@workflow.defn(name=NAME)
class Elsewhere(Editable):
    """Other workers make the attempts."""

    states = STATES
    effects = (contract(task_queue=ELSEWHERE),)

    @workflow.run
    async def run(self, errand: Errand) -> None:
        """See the base class."""
        await self.lead(errand)


@workflow.defn(name=NAME)
class Inline(Editable):
    """In the workflow's own worker."""

    states = STATES
    effects = (contract(inline=True),)

    @workflow.run
    async def run(self, errand: Errand) -> None:
        """See the base class."""
        await self.lead(errand)


@workflow.defn(name=NAME)
class GivingUp(Editable):
    """Two failures are enough."""

    states = STATES
    effects = (contract(retry=Retry(initial=seconds(0.1), cap=seconds(0.3), maximum=2)),)

    @workflow.run
    async def run(self, errand: Errand) -> None:
        """See the base class."""
        await self.lead(errand)


@workflow.defn(name=NAME)
class InOtherTimes(Editable):
    """Every time-out is another one, and so are the pauses."""

    states = STATES
    effects = (
        contract(
            timeout=seconds(7),
            heartbeat=seconds(3),
            pick_up=minutes(1),
            retry=Retry(initial=seconds(0.2), cap=seconds(0.4), jitter=0),
        ),
    )

    @workflow.run
    async def run(self, errand: Errand) -> None:
        """See the base class."""
        await self.lead(errand)


@workflow.defn(name=NAME)
class Limited(Editable):
    """It keeps to a rate, on a task queue of its own."""

    states = STATES
    effects = (contract(limit=Limit("account", per_second=50)),)

    @workflow.run
    async def run(self, errand: Errand) -> None:
        """See the base class."""
        await self.lead(errand)


@workflow.defn(name=NAME)
class Renamed(Editable):
    """Under another name, and it says so."""

    states = STATES
    effects = (contract("post-parcel", formerly=("send-parcel",)),)

    @workflow.run
    async def run(self, errand: Errand) -> None:
        """See the base class."""
        await self.lead(errand)


@workflow.defn(name=NAME)
class RenamedInSilence(Editable):
    """Under another name, and it does not say so."""

    states = STATES
    effects = (contract("post-parcel"),)

    @workflow.run
    async def run(self, errand: Errand) -> None:
        """See the base class."""
        await self.lead(errand)
