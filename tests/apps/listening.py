"""A lifecycle that is told things through the outbox: numbers, in the order in which it hears them, and when to end."""

from __future__ import annotations

from enum import StrEnum

from pydantic import BaseModel
from temporalio import workflow

from perdure import App, Lifecycle, state


class Ear(StrEnum):
    """Its states."""

    PENDING = "pending"
    OPEN = "open"
    CLOSED = "closed"
    CANCELLED = "cancelled"


class Told(BaseModel):
    """What it was told so far; `renew_after` = it goes on in a new run after so many."""

    numbers: list[int] = []
    renew_after: int = 1000


@workflow.defn(name="listener")
class Listener(Lifecycle[Told, Ear]):
    """Keeps what it is told."""

    states = (
        state(Ear.PENDING, Ear.OPEN, Ear.CANCELLED),
        state(Ear.OPEN, Ear.CLOSED, Ear.CANCELLED),
        state(Ear.CLOSED),
        state(Ear.CANCELLED, cancelled=True),
    )

    def __init__(self) -> None:
        self._told = Told()
        self._new = 0
        self._closing = False

    @workflow.run
    async def run(self, told: Told) -> None:
        """Listen until it is told to close."""
        kept = self.recall(Told)
        if kept is not None:
            self._told.numbers = kept.numbers + self._told.numbers
        await self.enter(Ear.OPEN)
        while not self._closing:
            await self.wait_for(lambda: self._closing or self._new >= told.renew_after)
            if not self._closing:
                await self.renew()
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


app = App([Listener], [])
