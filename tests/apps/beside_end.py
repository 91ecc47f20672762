"""Effects that are performed beside one whose outcome may end the entity."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from enum import StrEnum

from temporalio import workflow

from perdure import App, Attempt, Escalate, Lifecycle, NotDone, Repeat, effect, state

MAILED: list[str] = []
"""The entities whose mail was sent."""
_REFUSED: list[str] = []
"""The entities whose mail was refused once."""
_MOMENT = timedelta(seconds=10)


class Place(StrEnum):
    """States."""

    NEW = "new"
    OVER = state("over", final=True)


@effect(timeout=_MOMENT, doubt=Escalate())
async def charge(name: str, attempt: Attempt) -> str:
    """Is done as soon as the mail was refused."""
    while name not in _REFUSED:
        await asyncio.sleep(0.05)
    return "charged"


@effect(timeout=_MOMENT, doubt=Repeat())
async def mail(name: str, attempt: Attempt) -> str:
    """Is refused once, and sent then."""
    if name not in _REFUSED:
        _REFUSED.append(name)
        raise NotDone("busy", retry_after=timedelta(seconds=4))
    MAILED.append(name)
    return "sent"


@workflow.defn(name="in-branches")
class InBranches(Lifecycle[str, Place]):
    """Performs both in branches of `run`."""

    effects = (charge, mail)

    @workflow.run
    async def run(self, name: str) -> None:
        """See the class."""
        await asyncio.gather(self.perform(charge, name, then=Place.OVER), self.perform(mail, name))


@workflow.defn(name="in-handler")
class InHandler(Lifecycle[str, Place]):
    """Performs one of them in the handler of a message."""

    effects = (charge, mail)

    @workflow.run
    async def run(self, name: str) -> None:
        """See the class."""
        await self.perform(charge, name, then=Place.OVER)

    @workflow.signal
    async def tell(self, name: str) -> None:
        """Send the mail."""
        await self.perform(mail, name)


app = App(lifecycles=[InBranches, InHandler], effects=[])
