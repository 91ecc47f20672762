"""Lifecycles of effects that may fail once only, that wait for their turn, and whose repeats are dropped for a time."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

from pydantic import BaseModel
from temporalio import workflow

from perdure import App, Attempt, Dedupe, Effect, Escalate, RetryPolicy
from perdure.contracts import RateLimit
from tests.apps.booking import BookingLifecycle
from tests.apps.calls import do_booking
from tests.apps.contracts import Booking, Ticket

ONCE = RetryPolicy(initial_interval=timedelta(seconds=0.1), maximum_attempts=1)
LINE = RateLimit("line", per_second=10)
WITHIN = 5.0
"""Seconds after the first attempt in which another may begin: window, less margin and time-out."""
SLOW = RetryPolicy(initial_interval=timedelta(seconds=1), jitter=0)


def _once(name: str, inline: bool) -> Effect[Booking, Ticket]:
    return Effect[Booking, Ticket](
        name,
        timeout=timedelta(seconds=10),
        doubt=Escalate(),
        retry=ONCE,
        inline=inline,
        heartbeat_timeout=timedelta(seconds=2),
    )


def _deduped(name: str, limit: RateLimit | None) -> Effect[Booking, Ticket]:
    doubt = Dedupe(window=timedelta(seconds=8), margin=timedelta(seconds=1))
    return Effect[Booking, Ticket](
        name, timeout=timedelta(seconds=2), doubt=doubt, retry=SLOW, heartbeat_timeout=timedelta(seconds=2), limit=limit
    )


DO, DO_INLINE = _once("do-once", inline=False), _once("do-once-inline", inline=True)
DEDUPED, DEDUPED_IN_LINE = _deduped("do-deduped", None), _deduped("do-deduped-in-line", LINE)
SAVED = Effect[Booking, Ticket]("do-saved", timeout=timedelta(seconds=10), doubt=Escalate(), retry=ONCE, limit=LINE)


class Words(BaseModel):
    """What it was told."""

    words: int = 0


@workflow.defn(name="once")
class Once(BookingLifecycle):
    """May fail once."""

    effects = (DO,)

    @workflow.run
    async def run(self, booking: Booking) -> None:
        """See the base class."""
        await self.do_it(booking)


@workflow.defn(name="once-inline")
class OnceInline(BookingLifecycle):
    """The same, inline."""

    effects = (DO_INLINE,)

    @workflow.run
    async def run(self, booking: Booking) -> None:
        """See the base class."""
        await self.do_it(booking)


@workflow.defn(name="deduped")
class Deduped(BookingLifecycle):
    """The other side drops its repeats for a few seconds."""

    effects = (DEDUPED,)

    @workflow.run
    async def run(self, booking: Booking) -> None:
        """See the base class."""
        await self.do_it(booking)


@workflow.defn(name="deduped-in-line")
class DedupedInLine(BookingLifecycle):
    """The same, and it waits for its turn."""

    effects = (DEDUPED_IN_LINE,)

    @workflow.run
    async def run(self, booking: Booking) -> None:
        """See the base class."""
        await self.do_it(booking)


@workflow.defn(name="saving")
class Saving(BookingLifecycle):
    """Saves each word at once, also while its effect waits for its turn."""

    effects = (SAVED,)

    def __init__(self) -> None:
        self.words = 0

    def snapshot(self) -> Words:
        """How many there were."""
        return Words(words=self.words)

    @workflow.run
    async def run(self, booking: Booking) -> None:
        """See the base class."""
        await self.do_it(booking)

    @workflow.signal
    async def hear(self) -> None:
        """Keep a word."""
        self.words += 1
        await self.save()


LIFECYCLES = (Once, OnceInline, Deduped, DedupedInLine, Saving)


def _does(effect: Effect[Booking, Ticket]) -> Callable[..., Any]:
    async def body(booking: Booking, attempt: Attempt) -> Ticket:
        return await do_booking(booking, attempt)

    return effect.performs(body)


app = App(lifecycles=LIFECYCLES, effects=[_does(effect) for each in LIFECYCLES for effect in each.effects])
