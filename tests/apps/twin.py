"""`twin` performs two effects at the same time: a doubt of `do-asked` is looked up, and a refusal of `do-plain` needs a
person."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import timedelta
from enum import StrEnum
from typing import Any

from temporalio import workflow

from perdure import App, AskFirst, Attempt, Done, Effect, Escalate, Lifecycle, Lookup, LookupContext, state
from tests.apps.calls import do_booking, find_booking
from tests.apps.contracts import QUICK, Booking, Ticket

FIND = Lookup[Booking, Ticket]("find-asked", timeout=timedelta(seconds=5))
ASKED = Effect[Booking, Ticket](
    "do-asked",
    timeout=timedelta(seconds=3),
    retry=QUICK,
    doubt=AskFirst(FIND, visibility_delay=timedelta(seconds=0.5), every=timedelta(seconds=0.3), tries=None),
)
PLAIN = Effect[Booking, Ticket]("do-plain", timeout=timedelta(seconds=3), doubt=Escalate(), retry=QUICK)
LATER = 0.7
"""Seconds after which `do-plain` makes its call, which is so the second one."""


class Way(StrEnum):
    """Where it is."""

    BUSY = "busy"
    FAILED = state("failed", leads_to=("busy",), attention=True)
    DONE = state("done", final=True)


@workflow.defn(name="twin", sandboxed=False)
class Twin(Lifecycle[Booking, Way]):
    """See the module."""

    effects = (ASKED, PLAIN)

    @workflow.run
    async def run(self, booking: Booking) -> None:
        """Perform both."""
        await self.enter(Way.BUSY)
        other = asyncio.ensure_future(self.perform(ASKED, booking))
        while not isinstance(end := await self.perform(PLAIN, booking), Done):
            await self.enter(Way.FAILED, why=f"do-plain was refused: {end.why}")
            await self.retry_requested()
        await other
        await self.enter(Way.DONE)


def _does(effect: Effect[Booking, Ticket]) -> Callable[..., Any]:
    async def body(booking: Booking, attempt: Attempt) -> Ticket:
        if effect is PLAIN:
            await asyncio.sleep(LATER)
        return await do_booking(booking, attempt)

    return effect.performs(body)


async def _finds(booking: Booking, question: LookupContext) -> Ticket | None:
    return await find_booking(booking, question)


app = App([Twin], [_does(ASKED), _does(PLAIN), FIND.answers(_finds)])
