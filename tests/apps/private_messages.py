"""`private-message`: a lifecycle that does all that sends a payload to Temporal, and is told secrets everywhere.

`PHONE` goes into `Private` fields, `SECRET` into ordinary ones.
"""

from __future__ import annotations

from datetime import timedelta
from enum import StrEnum

from pydantic import BaseModel
from temporalio import workflow
from temporalio.exceptions import ApplicationError

from perdure import (
    App,
    AskFirst,
    Attempt,
    Done,
    Effect,
    Lifecycle,
    Lookup,
    LookupContext,
    NotDone,
    Repeat,
    RetryPolicy,
    state,
)
from perdure.encryption import Private

PHONE = "+15550100123"
SECRET = "the patient has a secret"
QUICK = RetryPolicy(initial_interval=timedelta(seconds=0.05), maximum_interval=timedelta(seconds=0.1))


class Secret(BaseModel):
    """What is private."""

    to: Private
    text: str


class Said(BaseModel):
    """The receipt: secret as well."""

    to: Private
    text: str


class Told(BaseModel):
    """What it remembers."""

    words: list[Secret] = []
    renewed: bool = False


FIND = Lookup[Secret, Said]("find-whisper", timeout=timedelta(seconds=5))
WHISPER = Effect[Secret, Said](
    "whisper",
    timeout=timedelta(seconds=2),
    doubt=AskFirst(FIND, visibility_delay=timedelta(seconds=0), every=timedelta(seconds=0.1)),
    retry=QUICK,
)
MUTTER = Effect[Secret, Said]("mutter", timeout=timedelta(seconds=2), doubt=Repeat(), retry=QUICK, inline=True)

opened: list[str] = []
"""What bodies have opened, in this process."""


class Way(StrEnum):
    """Where it is."""

    WAITING = "waiting"
    WHISPERED = "whispered"
    MUTTERED = "muttered"
    DONE = state("done", final=True)


@workflow.defn(name="private-message")
class PrivateMessage(Lifecycle[Secret, Way]):
    """Hears, goes on in a new run, whispers, mutters, and waits for a last word."""

    effects = (WHISPER, MUTTER)

    def __init__(self) -> None:
        self.words: list[Secret] = []
        self.renewed = False

    def snapshot(self) -> Told:
        """What it was told."""
        return Told(words=self.words, renewed=self.renewed)

    @workflow.run
    async def run(self, given: Secret) -> None:
        """Do all of it."""
        told = self.restore(Told) or Told()
        self.words[:0], self.renewed = told.words, told.renewed or self.renewed
        await self.wait_for(lambda: len(self.words) >= 1)
        if not self.renewed:
            self.renewed = True
            await self.save()
            await self.continue_as_new()
        whispered = await self.perform(WHISPER, given, then=Way.WHISPERED)
        if isinstance(whispered, Done):
            given = Secret(to=whispered.receipt.to, text=whispered.receipt.text)
        await self.perform(MUTTER, given, then=Way.MUTTERED)
        await self.wait_for(lambda: len(self.words) >= 2)
        await self.enter(Way.DONE)

    @workflow.signal
    def hear(self, word: Secret) -> None:
        """A message."""
        self.words.append(word)

    @workflow.update
    async def ask(self, word: Secret) -> Secret:
        """An update whose argument and answer are secret; one that is refused says why."""
        if word.text != SECRET:
            raise ApplicationError(f"that is no {SECRET}", word.text)
        return word

    @workflow.query
    def heard(self) -> list[Secret]:
        """A query."""
        return self.words


@WHISPER.performs
async def whisper(given: Secret, attempt: Attempt) -> Said:
    """Fails first in a way that says a secret, then in doubt."""
    opened.append(given.to.open())
    attempt.heartbeat({"at": given.text})
    await attempt.note({"to": Private(given.to.open())})
    if attempt.number == 1:
        raise NotDone("busy")
    raise RuntimeError(given.text)


@FIND.answers
async def find(given: Secret, question: LookupContext) -> Said:
    """It did happen."""
    return Said(to=Private(given.to.open()), text=given.text)


@MUTTER.performs
async def mutter(given: Secret, attempt: Attempt) -> Said:
    """Succeeds."""
    opened.append(given.to.open())
    return Said(to=given.to, text=given.text)


app = App([PrivateMessage], [whisper, find, mutter])
