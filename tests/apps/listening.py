"""A lifecycle that is told things through the outbox: numbers, in the order in which it hears them, and when to end."""

from __future__ import annotations

from enum import StrEnum

from pydantic import BaseModel
from temporalio import workflow

from perdure import App, Lifecycle, state
from tests.apps.calls import bound
from tests.apps.contracts import REGULAR, Booking


class Ear(StrEnum):
    """Its states."""

    PENDING = "pending"
    OPEN = "open"
    CLOSED = state("closed", final=True)
    CANCELLED = state("cancelled", cancelled=True)


class Told(BaseModel):
    """What it was told so far; `renew_after` = it goes on in a new run after so many."""

    numbers: list[int] = []
    renew_after: int = 1000


@workflow.defn(name="listener")
class Listener(Lifecycle[Told, Ear]):
    """Keeps what it is told."""

    def __init__(self) -> None:
        self._told = Told()
        self._new = 0
        self._closing = False

    @workflow.run
    async def run(self, told: Told) -> None:
        """Listen until it is told to close."""
        kept = self.restore(Told)
        if kept is not None:
            self._told.numbers = kept.numbers + self._told.numbers
        await self.enter(Ear.OPEN)
        while not self._closing:
            await self.wait_for(lambda: self._closing or self._new >= told.renew_after)
            if not self._closing:
                await self.continue_as_new()
        await self.enter(Ear.CLOSED)

    def snapshot(self) -> Told:
        """What it was told."""
        return self._told

    @workflow.signal
    def add(self, number: int) -> None:
        """Keep a number."""
        self._told.numbers.append(number)
        self._new += 1

    @workflow.signal
    async def close(self) -> None:
        """Come to the end."""
        self._closing = True

    @workflow.signal
    def pair(self, one: int, other: int) -> None:
        """More than a message carries."""

    @workflow.query
    def numbers(self) -> list[int]:
        """What it was told."""
        return self._told.numbers


class Toll(StrEnum):
    """States of a bell."""

    PENDING = "pending"
    RINGING = "ringing"
    RUNG = state("rung", final=True)
    WRONG = state("wrong", final=True)


@workflow.defn(name="bell")
class Bell(Lifecycle[Told, Toll]):
    """Does its booking when it was told the numbers that it was given, each once and in their order."""

    effects = (REGULAR["lookup"],)

    def __init__(self) -> None:
        self._heard = Told()

    @workflow.run
    async def run(self, told: Told) -> None:
        """Wait for them; more that come while it rings are wrong, too."""
        await self.wait_for(lambda: len(self._heard.numbers) >= len(told.numbers))
        if self._heard.numbers != told.numbers:
            return await self.enter(Toll.WRONG)
        await self.perform(REGULAR["lookup"], Booking(), entering=Toll.RINGING)
        assert self._heard.numbers == told.numbers
        await self.enter(Toll.RUNG)

    @workflow.signal
    async def add(self, number: int) -> None:
        """Hear a number."""
        self._heard.numbers.append(number)


class Assent(StrEnum):
    """States of a nod."""

    PENDING = "pending"
    NODDED = state("nodded", final=True)


class Query(BaseModel):
    """How often to nod; it does so once."""

    times: int = 1


@workflow.defn(name="nod")
class Nod(Lifecycle[Query, Assent]):
    """Ends at once: the cheapest lifecycle that there is."""

    @workflow.run
    async def run(self, question: Query) -> None:
        """Nod."""
        await self.enter(Assent.NODDED)


app = App([Listener, Bell, Nod], bound({"lookup": REGULAR["lookup"]}))
