"""A lifecycle whose loop never waits, because each of its awaits ends at once, and one that blocks its thread."""

from __future__ import annotations

import threading
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


goes_on = threading.Event()
"""Ends the blocking call."""


@workflow.defn(name="blocking", sandboxed=False)
class Blocking(Lifecycle[str, Way]):
    """Makes a blocking call, which takes as long as the test lets it."""

    @workflow.run
    async def run(self, given: str) -> None:
        goes_on.wait()
        await self.enter(Way.OVER)


app = App(lifecycles=[Endless, Blocking])
"""The app."""
