"""A lifecycle whose loop never waits, because each of its awaits ends at once."""

from __future__ import annotations

from enum import StrEnum

from temporalio import workflow

from perdure import App, Lifecycle, state


class Way(StrEnum):
    """Where it is."""

    NEW = "new"
    OVER = state("over", final=True)


@workflow.defn(name="endless")
class Endless(Lifecycle[str, Way]):
    """Waits for a time that is over, again and again."""

    @workflow.run
    async def run(self, given: str) -> None:
        # One line: an interruption between two of its rounds is in the line of `while`.
        while not await self.wait_for(lambda: False, until=self.started_at):  # it is here
            pass


app = App(lifecycles=[Endless])
"""The app."""
