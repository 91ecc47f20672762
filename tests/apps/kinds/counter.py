"""A lifecycle that lives long and goes on in new runs."""

from __future__ import annotations

import asyncio
from enum import StrEnum

from pydantic import BaseModel
from temporalio import workflow

from perdure import Lifecycle, state


class Count(BaseModel):
    """A counter's memory."""

    total: int = 0
    runs: int = 0


class Open(StrEnum):
    """Whether a counter still counts."""

    COUNTING = "counting"
    CLOSED = state("closed", final=True)


@workflow.defn(name="counter")
class Counter(Lifecycle[Count, Open]):
    """Lives long, counts what updates add, goes on in new runs, and ends when told."""

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
        count = self.restore(Count) or first
        self.total += count.total  # messages can come before
        self.runs = count.runs
        while self.told != "close":
            await self.wait_for(lambda: self.told is not None)
            if self.told == "renew":
                self.runs += 1
                await self.continue_as_new()
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
        """`continue_as_new`, `close` or `go`."""
        self.told = word

    @workflow.query
    def counted(self) -> int:
        """The total."""
        return self.total
