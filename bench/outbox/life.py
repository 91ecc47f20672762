"""The cheapest lifecycle: it begins and ends in one workflow task, with one write and no effect."""

from __future__ import annotations

from enum import StrEnum

from pydantic import BaseModel
from temporalio import workflow

from perdure import App, Lifecycle, state

with workflow.unsafe.imports_passed_through():
    from bench.outbox.marks import mark


class Given(BaseModel):
    """Its input."""

    number: int


class Where(StrEnum):
    """Its states."""

    PENDING = "pending"
    OVER = state("over", final=True)


@workflow.defn(name="nothing")
class Nothing(Lifecycle[Given, Where]):
    """Ends at once."""

    @workflow.run
    async def run(self, given: Given) -> None:
        """Say that it has begun, and end."""
        with workflow.unsafe.sandbox_unrestricted():
            mark(workflow.info().workflow_id.rpartition("/")[2])
        await self.enter(Where.OVER)


app = App(lifecycles=[Nothing], effects=[])
