"""A long effect that goes on where it was cut off."""

from __future__ import annotations

from enum import StrEnum

from temporalio import workflow

from perdure import Done, Lifecycle, state
from tests.apps.contracts import MARCH, March


class Pace(StrEnum):
    """Where a march is."""

    READY = "ready"
    MARCHING = "marching"
    THERE = state("there", final=True)


@workflow.defn(name="march")
class Marching(Lifecycle[March, Pace]):
    """One long effect that resumes."""

    effects = (MARCH,)

    @workflow.run
    async def run(self, march: March) -> None:
        """March until it is there."""
        end = await self.perform(MARCH, march, entering=Pace.MARCHING)
        assert isinstance(end, Done)
        await self.enter(Pace.THERE, why=f"{end.receipt.again} steps ran twice")
