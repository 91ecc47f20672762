"""A lifecycle whose receipt, step or snapshot has a number that JSON does not have, or a field that is not read."""

from __future__ import annotations

import math
from datetime import timedelta
from typing import Any

from pydantic import BaseModel, Field
from temporalio import workflow

from perdure import App, Attempt, Effect, Lifecycle, Repeat
from tests.apps.large import Stage


class Measured(BaseModel):
    """What has the number."""

    what: str
    more: Any = None


class Kept(BaseModel):
    """What the lifecycle remembers; `name` is written as `name`, and read as `theName`."""

    price: float | None = None
    name: str = Field("", alias="theName")


MEASURE = Effect[str, float | None]("measure", timeout=timedelta(seconds=60), doubt=Repeat())


@MEASURE.performs
async def measure(what: str, attempt: Attempt) -> float | None:
    """Measure nothing."""
    return math.nan


@workflow.defn(name="numbers", sandboxed=False)
class Numbers(Lifecycle[Measured, Stage]):
    """Measures."""

    effects = (MEASURE,)

    def __init__(self) -> None:
        self.kept = Kept()

    def snapshot(self) -> Kept:
        """What it remembers."""
        return self.kept

    @workflow.run
    async def run(self, given: Measured) -> None:
        """Work."""
        if given.what == "snapshot":
            self.kept.price = math.inf
        if given.what == "alias":
            self.kept = Kept(theName="ann")
        await self.enter(Stage.WORKING)
        await self.perform(MEASURE, given.what)
        await self.enter(Stage.OVER)


app = App([Numbers], [measure])
