"""Sales: two effects, words in between, a time by which they are of no use. One keeps what it hears in its snapshot."""

from __future__ import annotations

import os
from datetime import datetime, timedelta
from enum import StrEnum

from pydantic import BaseModel
from temporalio import workflow

from perdure import (
    App,
    AskFirst,
    Attempt,
    Done,
    Effect,
    Escalate,
    Lifecycle,
    Lookup,
    LookupContext,
    NotPerformed,
    RetryPolicy,
    state,
)
from tests.apps.calls import do_booking, find_booking
from tests.apps.contracts import Booking, Ticket

QUICK = RetryPolicy(initial_interval=timedelta(seconds=0.1), maximum_interval=timedelta(seconds=1))
IMPATIENT = RetryPolicy(
    initial_interval=timedelta(seconds=0.1), maximum_interval=timedelta(seconds=0.1), maximum_attempts=2
)
FIND = Lookup[Booking, Ticket]("find-reserved", timeout=timedelta(seconds=5), inline=True)
RESERVE = Effect[Booking, Ticket](
    "reserve",
    timeout=timedelta(seconds=6),
    doubt=AskFirst(FIND, visibility_delay=timedelta(seconds=0.5), every=timedelta(seconds=0.3)),
    retry=QUICK,
    inline=True,
)
PAY_TIMEOUT = timedelta(seconds=float(os.environ.get("PAY_TIMEOUT", "4")))
"""Its doubts wait for a person after that; where hundreds pay at once, it is longer."""
PAY = Effect[Booking, Ticket]("pay", timeout=PAY_TIMEOUT, doubt=Escalate(), retry=IMPATIENT, inline=True)


class Sale(BaseModel):
    """What to wait for; `until` is a time, `lasts` seconds since its start."""

    words: int = 1
    until: datetime | None = None
    lasts: float | None = None


class Sold(StrEnum):
    """States of a sale."""

    NEW = "new"
    RESERVING = "reserving"
    RESERVED = state("reserved", leads_to=("paying", "expired"))
    PAYING = "paying"
    REFUSED = state("refused", leads_to=("reserving", "paying"), attention=True)
    PAID = state("paid", final=True)
    EXPIRED = state("expired", final=True)
    CANCELLED = state("cancelled", cancelled=True)


class Heard(BaseModel):
    """What it was told."""

    words: list[int] = []


class _Selling(Lifecycle[Sale, Sold]):
    """What both do."""

    def __init__(self) -> None:
        self.words: list[int] = []

    async def sell(self, sale: Sale) -> None:
        """Reserve, hear the words, pay."""
        while not isinstance(await self.perform(RESERVE, Booking(), entering=Sold.RESERVING), Done):
            await self.enter(Sold.REFUSED)
            await self.retry_requested()
        await self.enter(Sold.RESERVED)
        until = sale.until if sale.lasts is None else self.started_at + timedelta(seconds=sale.lasts)
        if not await self.wait_for(lambda: len(self.words) >= sale.words, until=until):
            return await self.enter(Sold.EXPIRED)
        while isinstance(end := await self.perform(PAY, Booking(), entering=Sold.PAYING), NotPerformed):
            await self.enter(Sold.REFUSED, why=end.why)
            await self.retry_requested()
        await self.enter(Sold.PAID, why=f"words {self.words}")

    @workflow.signal
    def hear(self, word: int) -> None:
        """Keep a word."""
        self.words.append(word)


@workflow.defn(name="sale")
class KeptSale(_Selling):
    """Keeps what it hears."""

    effects = (RESERVE, PAY)

    @workflow.run
    async def run(self, sale: Sale) -> None:
        """Sell."""
        self.words[:0] = (self.restore(Heard) or Heard()).words
        await self.sell(sale)

    def snapshot(self) -> Heard:
        """What it heard."""
        return Heard(words=self.words)


@workflow.defn(name="forgetful-sale")
class ForgetfulSale(_Selling):
    """Keeps nothing, so it must be told again."""

    effects = (RESERVE, PAY)

    @workflow.run
    async def run(self, sale: Sale) -> None:
        """Sell."""
        await self.sell(sale)


@RESERVE.performs
async def reserve(booking: Booking, attempt: Attempt) -> Ticket:
    """Ask the counterparty."""
    return await do_booking(booking, attempt)


@PAY.performs
async def pay(booking: Booking, attempt: Attempt) -> Ticket:
    """Ask the counterparty."""
    return await do_booking(booking, attempt)


@FIND.answers
async def find_reserved(booking: Booking, question: LookupContext) -> Ticket | None:
    """Ask it whether it did."""
    return await find_booking(booking, question)


class Step(StrEnum):
    """States of a walk."""

    HERE = "here"
    ON = "on"
    FURTHER = "further"
    THERE = state("there", final=True)


@workflow.defn(name="walk")
class Walk(Lifecycle[Sale, Step]):
    """A step for each word; keeps nothing, and no state leads back."""

    def __init__(self) -> None:
        self.words = 0

    @workflow.run
    async def run(self, sale: Sale) -> None:
        """Walk."""
        for number, step in enumerate((Step.ON, Step.FURTHER, Step.THERE), 1):
            await self.wait_for(lambda number=number: self.words >= number)  # type: ignore[misc]
            await self.enter(step)

    @workflow.signal
    def go(self) -> None:
        """A step."""
        self.words += 1


app = App([KeptSale, ForgetfulSale, Walk], [reserve, pay, find_reserved])
