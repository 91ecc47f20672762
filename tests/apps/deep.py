"""A lifecycle whose receipt, look-up hint or snapshot is nested as deep as its input asks for: `size` levels."""

from __future__ import annotations

from datetime import timedelta
from functools import partial
from typing import Any

from pydantic import BaseModel
from temporalio import workflow

from perdure import App, Attempt, Effect, Lifecycle, Refused, Repeat
from perdure.errors import InvalidInput
from tests.apps.large import Stage, Wanted


class Kept(BaseModel):
    """What the lifecycle remembers."""

    data: Any = None


EFFECTS: dict[str, Effect[Wanted, Any]] = {
    "regular": Effect[Wanted, Any]("nest", timeout=timedelta(seconds=60), doubt=Repeat()),
    "inline": Effect[Wanted, Any]("nest-inline", timeout=timedelta(seconds=60), doubt=Repeat(), inline=True),
    "hint": Effect[Wanted, Any]("nest-hint", timeout=timedelta(seconds=60), doubt=Repeat()),
}


def nested(levels: int) -> Any:
    """A value below so many levels."""
    data: Any = 1
    for _ in range(levels):
        data = [data]
    return data


async def nest(wanted: Wanted, attempt: Attempt) -> Any:
    """Return it, or note it."""
    if wanted.what != "hint":
        return nested(wanted.size)
    try:
        await attempt.note(nested(wanted.size))
    except InvalidInput as error:
        raise Refused(str(error)) from error
    return None


@workflow.defn(name="deep", sandboxed=False)
class Deep(Lifecycle[Wanted, Stage]):
    """Lets something be nested deep."""

    effects = tuple(EFFECTS.values())

    def __init__(self) -> None:
        self.data: Any = None

    def snapshot(self) -> Kept:
        """What it remembers."""
        return Kept(data=self.data)

    @workflow.run
    async def run(self, wanted: Wanted) -> None:
        """Work."""
        if wanted.what == "snapshot":
            self.data = nested(wanted.size)
        await self.enter(Stage.WORKING)
        if wanted.what in EFFECTS:
            await self.perform(EFFECTS[wanted.what], wanted)
        await self.enter(Stage.OVER)


app = App([Deep], [effect.performs(partial(nest)) for effect in EFFECTS.values()])
