"""Lifecycles that show whether the sandbox watches them."""

from __future__ import annotations

import time
from enum import StrEnum
from typing import Any

from temporalio import workflow

from perdure import App, Lifecycle, state


class Stage(StrEnum):
    """The states."""

    NEW = "new"
    INSIDE = state("inside", final=True)
    OUTSIDE = state("outside", final=True)


@workflow.defn(name="where")
class Where(Lifecycle[str, Stage]):
    """Ends in the state that says where it was executed."""

    @workflow.run
    async def run(self, given: str) -> None:
        await self.enter(Stage.INSIDE if workflow.unsafe.in_sandbox() else Stage.OUTSIDE)


@workflow.defn(name="hidden")
class Hidden(Lifecycle[str, Stage]):
    """What no reading finds: the sandbox does."""

    @workflow.run
    async def run(self, given: str) -> None:
        clock: Any = getattr(time, given)
        await self.enter(Stage.OUTSIDE, why=str(clock()))


app = App([Where, Hidden], [])
