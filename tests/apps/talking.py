"""Lifecycles that are talked to: signals and updates of their own beside those that every lifecycle has.

`ring`, `ring-inline` and `ring-later` escalate a doubt at once; `look` and `look-inline` ask; `plod` can't be
cancelled; `rest` waits for a time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import timedelta
from enum import StrEnum
from typing import Any

from pydantic import BaseModel
from temporalio import workflow

from perdure import (
    App,
    AskFirst,
    Attempt,
    Done,
    Effect,
    Escalate,
    Expired,
    Lifecycle,
    Lookup,
    LookupContext,
    NotPerformed,
    Repeat,
    RetryPolicy,
    state,
)
from tests.apps.calls import do_booking, find_booking
from tests.apps.contracts import TIMEOUT, Booking, Ticket

ESCALATE = Escalate()
QUICK = RetryPolicy(initial_interval=timedelta(seconds=0.1), maximum_interval=timedelta(seconds=1))
SLOW = RetryPolicy(initial_interval=timedelta(hours=1), maximum_interval=timedelta(hours=1))


def _ring(
    name: str,
    inline: bool = False,
    retry: RetryPolicy = QUICK,
    doubt: Escalate | Repeat = ESCALATE,
    timeout: timedelta = TIMEOUT,
) -> Effect[Booking, Ticket]:
    return Effect[Booking, Ticket](name, timeout=timeout, doubt=doubt, retry=retry, inline=inline)


def _look(tail: str, inline: bool) -> Effect[Booking, Ticket]:
    find = Lookup[Booking, Ticket](f"find{tail}", timeout=timedelta(seconds=5), inline=inline)
    doubt = AskFirst(find, visibility_delay=timedelta(seconds=0.5), every=timedelta(seconds=0.3), tries=None)
    return Effect[Booking, Ticket](
        f"do-look{tail}",
        timeout=timedelta(seconds=3),
        doubt=doubt,
        retry=QUICK,
        inline=inline,
        heartbeat_timeout=timedelta(seconds=2),
    )


SECONDS = timedelta(seconds=2)
"""The time-out of calls that are in doubt in many tests: a doubt waits for a person after that."""
RING, RING_INLINE = _ring("do-ring", timeout=SECONDS), _ring("do-ring-inline", inline=True, timeout=SECONDS)
RING_LATER = _ring("do-ring-later", inline=True, timeout=SECONDS)
RING_AGAIN = _ring("do-ring-again", inline=True, doubt=Repeat(), timeout=SECONDS)
RING_SLOWLY = _ring("do-slow", retry=SLOW)
RING_ON = _ring("do-plod")
LOOK, LOOK_INLINE = _look("", False), _look("-inline", True)


class Way(StrEnum):
    """Where it is. Only `doing` leads from `pending` to an end."""

    PENDING = state("pending", leads_to=("doing",))
    DOING = "doing"
    DONE = state("done", final=True)
    FAILED = state("failed", leads_to=("doing",), attention=True)
    EXPIRED = state("expired", final=True)
    CANCELLED = state("cancelled", cancelled=True)


class Unstoppable(StrEnum):
    """The same, without a state in which a cancel ends."""

    PENDING = "pending"
    DOING = "doing"
    DONE = state("done", final=True)
    FAILED = state("failed", leads_to=("doing",), attention=True)
    EXPIRED = state("expired", final=True)


class Heard(BaseModel):
    """What it was told."""

    words: list[str] = []


class _Talk(Lifecycle[Booking, Way]):
    """Performs its effect until it is done, and keeps what it is told."""

    def __init__(self) -> None:
        self.words: list[str] = []

    def snapshot(self) -> Heard:
        """What it was told so far."""
        return Heard(words=self.words)

    async def do_it(self, booking: Booking) -> None:
        """Perform the first of its effects until it is done."""
        self.words[:0] = (self.restore(Heard) or Heard()).words
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

    async def do_it_later(self, booking: Booking) -> None:
        """The same after a second, unless it has heard a word by then."""
        if await self.wait_for(lambda: bool(self.words), until=self.started_at + timedelta(seconds=1)):
            return await self.enter(Way.CANCELLED)
        await self.do_it(booking)

    @workflow.signal
    def hear(self, word: str) -> None:
        """Keep a word."""
        self.words.append(word)

    @workflow.update
    async def say(self, word: str) -> int:
        """Keep a word, and tell how many there are."""
        self.words.append(word)
        await asyncio.sleep(0)
        return len(self.words)


@workflow.defn(name="ring")
class Ring(_Talk):
    """A doubt waits for a person."""

    effects = (RING,)

    @workflow.run
    async def run(self, booking: Booking) -> None:
        """See the base class."""
        await self.do_it(booking)


@workflow.defn(name="ring-inline")
class RingInline(_Talk):
    """The same, inline."""

    effects = (RING_INLINE,)

    @workflow.run
    async def run(self, booking: Booking) -> None:
        """See the base class."""
        await self.do_it(booking)


@workflow.defn(name="ring-later")
class RingLater(_Talk):
    """The same a second later, unless it has heard a word by then."""

    effects = (RING_LATER,)

    @workflow.run
    async def run(self, booking: Booking) -> None:
        """See the base class."""
        await self.do_it_later(booking)


@workflow.defn(name="ring-again")
class RingAgain(_Talk):
    """The same, of an effect that is repeated in doubt."""

    effects = (RING_AGAIN,)

    @workflow.run
    async def run(self, booking: Booking) -> None:
        """See the base class."""
        await self.do_it_later(booking)


@workflow.defn(name="slow")
class Slow(_Talk):
    """It waits an hour after each failure."""

    effects = (RING_SLOWLY,)

    @workflow.run
    async def run(self, booking: Booking) -> None:
        """See the base class."""
        await self.do_it(booking)


@workflow.defn(name="look")
class Look(_Talk):
    """A doubt is looked up."""

    effects = (LOOK,)

    @workflow.run
    async def run(self, booking: Booking) -> None:
        """See the base class."""
        await self.do_it(booking)


@workflow.defn(name="look-inline")
class LookInline(_Talk):
    """The same, inline."""

    effects = (LOOK_INLINE,)

    @workflow.run
    async def run(self, booking: Booking) -> None:
        """See the base class."""
        await self.do_it(booking)


@workflow.defn(name="plod")
class Plod(_Talk):
    """Declares no state to be cancelled in, so nothing stops it."""

    states = Unstoppable
    effects = (RING_ON,)

    @workflow.run
    async def run(self, booking: Booking) -> None:
        """See the base class."""
        await self.do_it(booking)


@workflow.defn(name="rest")
class Rest(Lifecycle[Booking, Way]):
    """Waits for as long as its booking says, and is done."""

    @workflow.run
    async def run(self, booking: Booking) -> None:
        """Wait."""
        await self.enter(Way.DOING)
        since = workflow.now()
        await self.wait_until(since + timedelta(seconds=booking.seconds))
        await self.enter(Way.DONE, why=f"{(workflow.now() - since).days} days")


LIFECYCLES = (Ring, RingInline, RingLater, RingAgain, Slow, Look, LookInline, Plod, Rest)


def _does(effect: Effect[Booking, Ticket]) -> Callable[..., Any]:
    async def body(booking: Booking, attempt: Attempt) -> Ticket:
        return await do_booking(booking, attempt)

    return effect.performs(body)


def _finds(effect: Effect[Booking, Ticket]) -> Callable[..., Any]:
    async def body(booking: Booking, question: LookupContext) -> Ticket | None:
        return await find_booking(booking, question)

    assert effect.lookup is not None
    return effect.lookup.answers(body)


EFFECTS = [effect for each in LIFECYCLES for effect in each.effects]
app = App(LIFECYCLES, [*map(_does, EFFECTS), *map(_finds, [LOOK, LOOK_INLINE])])
