"""A lifecycle, an effect and a step whose types are strict Pydantic models."""

from __future__ import annotations

from datetime import datetime, timedelta
from enum import StrEnum

from pydantic import BaseModel, ConfigDict
from temporalio import workflow

from perdure import App, Attempt, Done, Effect, Lifecycle, Repeat, Step, StepContext, state


class At(BaseModel):
    """A time, for which Pydantic takes no text unless it reads JSON."""

    model_config = ConfigDict(strict=True)

    at: datetime


RING = Effect[At, At]("ring-at", timeout=timedelta(seconds=5), doubt=Repeat(), inline=True)
NEXT = Step[At, At]("next-at")


class Way(StrEnum):
    """Where it is."""

    NEW = "new"
    DONE = state("done", final=True)


@workflow.defn(name="strict")
class Strict(Lifecycle[At, Way]):
    """Rings, and takes the step."""

    effects = (RING,)
    steps = (NEXT,)

    @workflow.run
    async def run(self, given: At) -> None:
        """Ring."""
        rung = await self.perform(RING, given)
        assert isinstance(rung, Done)
        following = await self.step(NEXT, rung.receipt)
        await self.enter(Way.DONE, why=str(following.at.year))


@RING.performs
async def ring(given: At, attempt: Attempt) -> At:
    """Ring."""
    attempt.before_first_byte()
    return given


@NEXT.takes
async def following(given: At, context: StepContext) -> At:
    """The same day of the next year."""
    return At(at=given.at.replace(year=given.at.year + 1))


app = App(lifecycles=[Strict], effects=[ring, following])
