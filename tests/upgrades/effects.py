"""Editions that differ in an effect's contract."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from temporalio import workflow

from perdure import AskFirst, Dedupe, Effect, Escalate, Lookup, Repeat, RetryPolicy
from perdure.contracts import RateLimit
from perdure.contracts.policies import DoubtPolicy
from tests.apps.contracts import Booking, Ticket
from tests.upgrades.editions import Editable

NAME = "parcel"
SECONDS = timedelta(seconds=2)
"""The time-out of calls: before it has passed, no miss of a look-up counts, and no doubt waits for a person."""
SOON = RetryPolicy(initial_interval=timedelta(seconds=0.1), maximum_interval=timedelta(seconds=0.3))
FIND = Lookup[Booking, Ticket]("find-parcel", timeout=timedelta(seconds=5))
SEEK = Lookup[Booking, Ticket]("seek-parcel", timeout=timedelta(seconds=5), aliases=("find-parcel",))
FIND_IN_LINE = Lookup[Booking, Ticket](
    "find-parcel", timeout=timedelta(seconds=5), limit=RateLimit("account", per_second=50)
)
ELSEWHERE = "parcels-elsewhere"
"""Another task queue."""


def contract(name: str = "send-parcel", **more: Any) -> Effect[Booking, Ticket]:
    """One that escalates, but for what `more` says."""
    usual: dict[str, Any] = {"timeout": SECONDS, "doubt": Escalate(), "retry": SOON}
    return Effect[Booking, Ticket](name, **(usual | more))


def looking(
    misses: int = 1, visibility_delay: float = 0.2, find: Lookup[Booking, Ticket] = FIND, **more: Any
) -> DoubtPolicy[Booking, Ticket]:
    """Asks, and goes on asking."""
    return AskFirst(
        find, visibility_delay=timedelta(seconds=visibility_delay), misses=misses, every=timedelta(seconds=0.03), **more
    )


@workflow.defn(name=NAME)
class Escalating(Editable):
    """As it was before."""

    effects = (contract(),)

    @workflow.run
    async def run(self, booking: Booking) -> None:
        """See the base class."""
        await self.lead(booking)


@workflow.defn(name=NAME)
class WithAnother(Editable):
    """Has a second effect, which this run does not perform: an attempt of it is that of a lost workflow task."""

    effects = (contract(), contract("send-note"))

    @workflow.run
    async def run(self, booking: Booking) -> None:
        """See the base class."""
        await self.lead(booking)


@workflow.defn(name=NAME)
class Repeating(Editable):
    """A repeat is harmless after all."""

    effects = (contract(doubt=Repeat()),)

    @workflow.run
    async def run(self, booking: Booking) -> None:
        """See the base class."""
        await self.lead(booking)


@workflow.defn(name=NAME)
class Deduping(Editable):
    """The other side drops repeats."""

    effects = (contract(doubt=Dedupe(window=timedelta(minutes=5), margin=timedelta(seconds=1))),)

    @workflow.run
    async def run(self, booking: Booking) -> None:
        """See the base class."""
        await self.lead(booking)


@workflow.defn(name=NAME)
class Asking(Editable):
    """The other side can be asked: one miss is enough."""

    effects = (contract(doubt=looking()),)

    @workflow.run
    async def run(self, booking: Booking) -> None:
        """See the base class."""
        await self.lead(booking)


@workflow.defn(name=NAME)
class AskingLonger(Editable):
    """It takes four misses."""

    effects = (contract(doubt=looking(misses=4)),)

    @workflow.run
    async def run(self, booking: Booking) -> None:
        """See the base class."""
        await self.lead(booking)


@workflow.defn(name=NAME)
class AskingUnderAnotherName(Editable):
    """The look-up has another name, and says so; it takes four misses."""

    effects = (contract(doubt=looking(misses=4, find=SEEK)),)

    @workflow.run
    async def run(self, booking: Booking) -> None:
        """See the base class."""
        await self.lead(booking)


@workflow.defn(name=NAME)
class AskingForAnHour(Editable):
    """No miss counts for an hour."""

    effects = (contract(doubt=looking(visibility_delay=3600)),)

    @workflow.run
    async def run(self, booking: Booking) -> None:
        """See the base class."""
        await self.lead(booking)


def _seldom(find: Lookup[Booking, Ticket]) -> DoubtPolicy[Booking, Ticket]:
    """Asks at once, and again in five seconds: nothing waits in the queue of the look-up meanwhile."""
    return AskFirst(find, visibility_delay=timedelta(minutes=1), every=timedelta(seconds=5))


@workflow.defn(name=NAME)
class AskingSeldom(Editable):
    """The look-up keeps to no limit."""

    effects = (contract(doubt=_seldom(FIND)),)

    @workflow.run
    async def run(self, booking: Booking) -> None:
        """See the base class."""
        await self.lead(booking)


@workflow.defn(name=NAME)
class AskingSeldomInLine(Editable):
    """The look-up keeps to a limit."""

    effects = (contract(doubt=_seldom(FIND_IN_LINE)),)

    @workflow.run
    async def run(self, booking: Booking) -> None:
        """See the base class."""
        await self.lead(booking)


@workflow.defn(name=NAME)
class AskingForEver(Editable):
    """A look-up that can't answer is tried again, ten thousand times."""

    effects = (contract(doubt=looking(tries=10_000)),)

    @workflow.run
    async def run(self, booking: Booking) -> None:
        """See the base class."""
        await self.lead(booking)


@workflow.defn(name=NAME)
class Elsewhere(Editable):
    """Other workers make the attempts."""

    effects = (contract(task_queue=ELSEWHERE),)

    @workflow.run
    async def run(self, booking: Booking) -> None:
        """See the base class."""
        await self.lead(booking)


@workflow.defn(name=NAME)
class Inline(Editable):
    """In the workflow's own worker."""

    effects = (contract(inline=True),)

    @workflow.run
    async def run(self, booking: Booking) -> None:
        """See the base class."""
        await self.lead(booking)


@workflow.defn(name=NAME)
class GivingUp(Editable):
    """Two failures are enough."""

    effects = (
        contract(
            retry=RetryPolicy(
                initial_interval=timedelta(seconds=0.1), maximum_interval=timedelta(seconds=0.3), maximum_attempts=2
            )
        ),
    )

    @workflow.run
    async def run(self, booking: Booking) -> None:
        """See the base class."""
        await self.lead(booking)


@workflow.defn(name=NAME)
class InOtherTimes(Editable):
    """Every time-out is another one, and so are the pauses."""

    effects = (
        contract(
            timeout=timedelta(seconds=7),
            heartbeat_timeout=timedelta(seconds=3),
            schedule_to_start_timeout=timedelta(minutes=1),
            retry=RetryPolicy(
                initial_interval=timedelta(seconds=0.2), maximum_interval=timedelta(seconds=0.4), jitter=0
            ),
        ),
    )

    @workflow.run
    async def run(self, booking: Booking) -> None:
        """See the base class."""
        await self.lead(booking)


@workflow.defn(name=NAME)
class Limited(Editable):
    """It keeps to a rate, on a task queue of its own."""

    effects = (contract(limit=RateLimit("account", per_second=50)),)

    @workflow.run
    async def run(self, booking: Booking) -> None:
        """See the base class."""
        await self.lead(booking)


@workflow.defn(name=NAME)
class Renamed(Editable):
    """Under another name, and it says so."""

    effects = (contract("post-parcel", aliases=("send-parcel",)),)

    @workflow.run
    async def run(self, booking: Booking) -> None:
        """See the base class."""
        await self.lead(booking)


@workflow.defn(name=NAME)
class RenamedInSilence(Editable):
    """Under another name, and it does not say so."""

    effects = (contract("post-parcel"),)

    @workflow.run
    async def run(self, booking: Booking) -> None:
        """See the base class."""
        await self.lead(booking)
