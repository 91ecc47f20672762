"""A lifecycle that waits, as most do most of the time, and its app: `perdure worker bench.waiting:app`."""

from __future__ import annotations

from enum import StrEnum

from temporalio import workflow

from activities.comments.contracts import Comment
from perdure import App, Lifecycle, state


class Where(StrEnum):
    """Where it is."""

    PENDING = "pending"
    WAITING = "waiting"
    OVER = state("over", final=True)


@workflow.defn(name="waiting")
class Waiting(Lifecycle[Comment, Where]):
    """Waits for a message that never comes."""

    @workflow.run
    async def run(self, comment: Comment) -> None:
        """Say that it waits, and wait."""
        await self.enter(Where.WAITING)
        await self.wait_for(lambda: False)
        await self.enter(Where.OVER)


app = App(lifecycles=[Waiting], effects=[])
