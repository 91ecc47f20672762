"""A lifecycle that takes a step, and the step's body, which notes itself down in the app's database.

What the body does besides is said by a row of the table `told`: `fail` or `wait`, until it is deleted.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from enum import StrEnum
from typing import Any

import asyncpg
from temporalio import workflow

from perdure import App, Lifecycle, Settings, Step, StepContext, state

TABLES = """
    create table taken (id text primary key, times int not null default 1);
    create table told (what text primary key);
"""
TAKE = Step[str, int]("note-it", timeout=timedelta(seconds=30))


class Pace(StrEnum):
    """Its states."""

    NEW = "new"
    DONE = state("done", final=True)
    CANCELLED = state("cancelled", cancelled=True)


@workflow.defn(name="stepper")
class Stepper(Lifecycle[str, Pace]):
    """Takes one step."""

    steps = (TAKE,)

    @workflow.run
    async def run(self, what: str) -> None:
        """Take it, and end."""
        times = await self.step(TAKE, what)
        await self.enter(Pace.DONE, why=f"taken {times} times")


@TAKE.takes
async def note_it(what: str, occasion: StepContext) -> int:
    """How often it was taken, this time included."""
    pool: Any = occasion.resources
    noted = await pool.fetchval(
        "insert into taken (id) values ($1) on conflict (id) do update set times = taken.times + 1 returning times",
        what,
    )
    while told := await pool.fetchval("select what from told"):
        if told == "fail":
            raise RuntimeError("as told")
        await asyncio.sleep(0.02)
    return int(noted)


@asynccontextmanager
async def lifespan(config: Settings) -> AsyncIterator[Any]:
    """Connections to the app's database."""
    async with asyncpg.create_pool(config.database_url, min_size=0, max_size=4, command_timeout=5) as pool:
        yield pool


app = App(lifecycles=[Stepper], effects=[note_it], lifespan=lifespan)
