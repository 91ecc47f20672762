"""Lifecycles of the tests: an errand per doubt policy and way to run it, and a few with shapes of their own."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from enum import StrEnum

from pydantic import BaseModel
from temporalio import workflow

from perdure import AppColumn, Done, Ended, Expired, Lifecycle, minutes, state
from tests.apps.contracts import INLINE, MARCH, REGULAR, Errand, March


class Way(StrEnum):
    """Where an errand is."""

    PENDING = "pending"
    DOING = "doing"
    DONE = "done"
    FAILED = "failed"
    EXPIRED = "expired"
    CANCELLED = "cancelled"


_STATES = (
    state(Way.PENDING, Way.DOING, Way.FAILED, Way.EXPIRED, Way.CANCELLED),
    state(Way.DOING, Way.DONE, Way.FAILED, Way.EXPIRED, Way.CANCELLED, within=minutes(5)),
    state(Way.FAILED, Way.DOING, Way.CANCELLED, attention=True),
    state(Way.DONE),
    state(Way.EXPIRED),
    state(Way.CANCELLED, cancelled=True),
)


class _Errand(Lifecycle[Errand, Way]):
    """What all errands do; each subclass binds an effect."""

    async def do_it(self, errand: Errand) -> None:
        """Perform the first of its effects until it is done, or until nobody wants it any more."""
        expires_at = workflow.now() + timedelta(seconds=errand.seconds) if errand.seconds else None
        while True:
            match await self.perform(self.effects[0], errand, entering=Way.DOING, expires_at=expires_at):
                case Done(ticket):
                    return await self.enter(Way.DONE, why=f"ticket {ticket.number}")
                case Expired(why):
                    return await self.enter(Way.EXPIRED, why=why)
                case Ended(why):
                    await self.enter(Way.FAILED, why=why)
                    await self.retry_requested()


@workflow.defn(name="lookup")
class Lookup(_Errand):
    """Lookup."""

    states = _STATES
    effects = (REGULAR["lookup"],)
    mirror = AppColumn("errand", column="state")

    @workflow.run
    async def run(self, errand: Errand) -> None:
        """See the base class."""
        await self.do_it(errand)


@workflow.defn(name="lookup-inline")
class LookupInline(_Errand):
    """Lookup, inline."""

    states = _STATES
    effects = (INLINE["lookup"],)
    mirror = AppColumn("errand", column="state")

    @workflow.run
    async def run(self, errand: Errand) -> None:
        """See the base class."""
        await self.do_it(errand)


@workflow.defn(name="dedupe")
class Dedupe(_Errand):
    """Dedupe."""

    states = _STATES
    effects = (REGULAR["dedupe"],)
    mirror = AppColumn("errand", column="state")

    @workflow.run
    async def run(self, errand: Errand) -> None:
        """See the base class."""
        await self.do_it(errand)


@workflow.defn(name="dedupe-inline")
class DedupeInline(_Errand):
    """Dedupe, inline."""

    states = _STATES
    effects = (INLINE["dedupe"],)
    mirror = AppColumn("errand", column="state")

    @workflow.run
    async def run(self, errand: Errand) -> None:
        """See the base class."""
        await self.do_it(errand)


@workflow.defn(name="repeat")
class Repeat(_Errand):
    """Repeat."""

    states = _STATES
    effects = (REGULAR["repeat"],)
    mirror = AppColumn("errand", column="state")

    @workflow.run
    async def run(self, errand: Errand) -> None:
        """See the base class."""
        await self.do_it(errand)


@workflow.defn(name="repeat-inline")
class RepeatInline(_Errand):
    """Repeat, inline."""

    states = _STATES
    effects = (INLINE["repeat"],)
    mirror = AppColumn("errand", column="state")

    @workflow.run
    async def run(self, errand: Errand) -> None:
        """See the base class."""
        await self.do_it(errand)


@workflow.defn(name="escalate")
class Escalate(_Errand):
    """Escalate."""

    states = _STATES
    effects = (REGULAR["escalate"],)
    mirror = AppColumn("errand", column="state")

    @workflow.run
    async def run(self, errand: Errand) -> None:
        """See the base class."""
        await self.do_it(errand)


@workflow.defn(name="escalate-inline")
class EscalateInline(_Errand):
    """Escalate, inline."""

    states = _STATES
    effects = (INLINE["escalate"],)
    mirror = AppColumn("errand", column="state")

    @workflow.run
    async def run(self, errand: Errand) -> None:
        """See the base class."""
        await self.do_it(errand)


class Pace(StrEnum):
    """Where a march is."""

    READY = "ready"
    MARCHING = "marching"
    THERE = "there"


@workflow.defn(name="march")
class Marching(Lifecycle[March, Pace]):
    """One long effect that resumes."""

    states = (state(Pace.READY, Pace.MARCHING), state(Pace.MARCHING, Pace.THERE), state(Pace.THERE))
    effects = (MARCH,)

    @workflow.run
    async def run(self, march: March) -> None:
        """March until it is there."""
        end = await self.perform(MARCH, march, entering=Pace.MARCHING)
        assert isinstance(end, Done)
        await self.enter(Pace.THERE, why=f"{end.receipt.again} steps ran twice")


class Count(BaseModel):
    """A counter's memory."""

    total: int = 0
    runs: int = 0


class Open(StrEnum):
    """Whether a counter still counts."""

    COUNTING = "counting"
    CLOSED = "closed"


@workflow.defn(name="counter")
class Counter(Lifecycle[Count, Open]):
    """Lives long, counts what updates add, goes on in new runs, and ends when told."""

    states = (state(Open.COUNTING, Open.CLOSED), state(Open.CLOSED))
    mirror = None

    def __init__(self) -> None:
        self.total = 0
        self.runs = 0
        self.stays = False
        self.told: str | None = None

    def snapshot(self) -> Count:
        """Its memory."""
        return Count(total=self.total, runs=self.runs)

    @workflow.run
    async def run(self, first: Count) -> None:
        """Count until told to renew or to close."""
        count = self.recall(Count) or first
        self.total += count.total  # messages can come before
        self.runs = count.runs
        while self.told != "close":
            await self.wait_for(lambda: self.told is not None)
            if self.told == "renew":
                self.runs += 1
                await self.renew()
        await self.enter(Open.CLOSED, why=f"total {self.total}")

    @workflow.update
    async def add(self, number: int) -> int:
        """Add, and say the total; what was acknowledged must never be lost."""
        self.total += number
        await asyncio.sleep(0)
        return self.total

    @workflow.update
    async def stay(self) -> None:
        """Take until told to go."""
        self.stays = True
        await workflow.wait_condition(lambda: self.told == "go")

    @workflow.query
    def staying(self) -> bool:
        """Whether somebody stays."""
        return self.stays

    @workflow.signal
    def tell(self, word: str) -> None:
        """`renew`, `close` or `go`."""
        self.told = word

    @workflow.query
    def counted(self) -> int:
        """The total."""
        return self.total


LIFECYCLES = (
    Lookup,
    LookupInline,
    Dedupe,
    DedupeInline,
    Repeat,
    RepeatInline,
    Escalate,
    EscalateInline,
    Marching,
    Counter,
)
