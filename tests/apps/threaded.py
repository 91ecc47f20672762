"""An effect whose body waits for a thread that never ends."""

from __future__ import annotations

import asyncio
import threading
from datetime import timedelta
from enum import StrEnum

from temporalio import workflow

from perdure import App, Attempt, Done, Effect, Escalate, Lifecycle, state

PRINT = Effect[None, None]("print", timeout=timedelta(minutes=5), doubt=Escalate())


class Print(StrEnum):
    """Where it is."""

    PENDING = "pending"
    PRINTED = state("printed", final=True)


@workflow.defn(name="printing")
class Printing(Lifecycle[None, Print]):
    """Prints once."""

    effects = (PRINT,)

    @workflow.run
    async def run(self, given: None) -> None:
        """Print."""
        assert isinstance(await self.perform(PRINT, None), Done)
        await self.enter(Print.PRINTED)


@PRINT.performs
async def print_page(given: None, attempt: Attempt) -> None:
    """Wait for a driver that never answers, in a thread."""
    await asyncio.to_thread(_printer)


def _printer() -> None:
    print("the thread runs", flush=True)
    threading.Event().wait()


app = App(lifecycles=[Printing], effects=[print_page])
