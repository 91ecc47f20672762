"""`letter`: posts what it holds when it is told where to, so that a test sees whom a sealed address reaches."""

from __future__ import annotations

from datetime import timedelta
from enum import StrEnum

from pydantic import BaseModel
from temporalio import workflow

from perdure import App, Attempt, Effect, Lifecycle, Repeat, RetryPolicy, state
from perdure.encryption import Private


class Letter(BaseModel):
    """A letter, and the address that it goes to."""

    to: Private
    text: Private


class Posted(BaseModel):
    """The receipt."""

    to: Private


POST = Effect[Letter, Posted](
    "post-letter",
    timeout=timedelta(seconds=2),
    doubt=Repeat(),
    retry=RetryPolicy(initial_interval=timedelta(seconds=0.05), maximum_interval=timedelta(seconds=0.1)),
)
posted: list[tuple[str, str]] = []
"""The addresses and texts of what was posted from this process."""


class At(StrEnum):
    """Where it is."""

    WRITTEN = "written"
    POSTED = state("posted", final=True)


@workflow.defn(name="letter")
class Letters(Lifecycle[Letter, At]):
    """Waits until it is sent off, with the letter that it has or with another one."""

    effects = (POST,)

    def __init__(self) -> None:
        self.letters: list[Letter | None] = []

    @workflow.run
    async def run(self, letter: Letter) -> None:
        """Post one letter."""
        await self.wait_for(lambda: bool(self.letters))
        await self.perform(POST, self.letters[0] or letter, then=At.POSTED)

    @workflow.signal
    def send_off(self, letter: Letter | None = None) -> None:
        """Post it; another one in its place, where one is given."""
        self.letters.append(letter)


@POST.performs
async def post(letter: Letter, attempt: Attempt) -> Posted:
    """Open what it needs, and hand it over."""
    posted.append((letter.to.open(), letter.text.open()))
    return Posted(to=letter.to)


app = App([Letters], [post])
