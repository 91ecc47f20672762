"""Editions that differ in the shape of what is on record: input, snapshot, receipt."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, Generic, TypeVar

from pydantic import BaseModel, model_validator
from temporalio import workflow

from perdure import Done, Effect, Escalate, Lifecycle, RetryPolicy
from tests.apps.contracts import Booking, Ticket
from tests.upgrades.editions import Step

NAME = "letter"


class Letter(BaseModel):
    """The input as it was."""

    to: str = "bob"
    copies: int = 1


class WithDefault(BaseModel):
    """One field more, that has a default; one less."""

    to: str
    colour: str = "black"


class Demanding(BaseModel):
    """One field more, that has none."""

    to: str
    colour: str


class Upcast(BaseModel):
    """One field more, and what it is in letters of before."""

    to: str
    colour: str

    @model_validator(mode="before")
    @classmethod
    def of_before(cls, data: dict[str, Any]) -> dict[str, Any]:
        """Letters of before were blue."""
        return {"colour": "blue", **data}


class Kept(BaseModel):
    """The snapshot as it was."""

    word: str = ""


class KeptMore(BaseModel):
    """One field more, that has no default."""

    word: str
    by: str


class KeptMoreOrLess(BaseModel):
    """One field more, with a default."""

    word: str
    by: str = "nobody"


class Stamped(BaseModel):
    """A receipt with one field more, that has no default."""

    number: int
    stamp: str


class MaybeStamped(BaseModel):
    """A receipt with one field more, that has a default."""

    number: int
    stamp: str = "none"


class Weighed(BaseModel):
    """What is sent has one field more, with a default."""

    what: str = "x"
    seconds: float = 0.0
    weight: int = 1


I = TypeVar("I")  # noqa: E741


class _Letter(Lifecycle[I, Step], Generic[I]):
    """Takes words, goes on in a new run when told `continue_as_new`, sends when told `send`."""

    keeps: type[BaseModel] = Kept
    sends: type[BaseModel] = Booking

    def __init__(self) -> None:
        self.word = ""
        self.last = ""
        self.colour = ""

    def snapshot(self) -> Kept:
        """The last word."""
        return Kept(word=self.last)

    @workflow.signal
    def tell(self, word: str) -> None:
        """What to do next."""
        self.word = self.last = word

    @workflow.query
    def restored(self) -> str:
        """What it was told, in this run or before."""
        return self.last

    async def lead(self, letter: Any) -> None:
        """What all editions do."""
        self.colour = getattr(letter, "colour", "")
        if (kept := self.restore(self.keeps)) is not None:
            self.last = self.last or kept.word  # type: ignore[attr-defined]
            self.word = self.word or ("send" if self.last == "send" else "")
        while self.word != "send":
            await self.wait_for(lambda: self.word in ("renew", "send"))
            if self.word == "renew":
                await self.continue_as_new()
        while not isinstance(
            end := await self.perform(self.effects[0], self.sends(what=letter.to), entering=Step.DOING), Done
        ):
            await self.enter(Step.FAILED, why=end.why)
            await self.retry_requested()
        await self.enter(Step.DONE, why=self.colour)


def _sends(receipt: Any = Ticket, given: Any = Booking) -> Effect[Any, Any]:
    return Effect[given, receipt](
        "send-letter",
        timeout=timedelta(seconds=2),
        doubt=Escalate(),
        retry=RetryPolicy(initial_interval=timedelta(seconds=0.1), maximum_interval=timedelta(seconds=0.3)),
    )


@workflow.defn(name=NAME)
class Before(_Letter[Letter]):
    """As it was."""

    states = Step
    effects = (_sends(),)

    @workflow.run
    async def run(self, letter: Letter) -> None:
        """See the base class."""
        await self.lead(letter)


@workflow.defn(name=NAME)
class InputWithDefault(_Letter[WithDefault]):
    """The input has other fields, with defaults."""

    states = Step
    effects = (_sends(),)

    @workflow.run
    async def run(self, letter: WithDefault) -> None:
        """See the base class."""
        await self.lead(letter)


@workflow.defn(name=NAME)
class InputDemanding(_Letter[Demanding]):
    """The input has a field that letters of before lack."""

    states = Step
    effects = (_sends(),)

    @workflow.run
    async def run(self, letter: Demanding) -> None:
        """See the base class."""
        await self.lead(letter)


@workflow.defn(name=NAME)
class InputUpcast(_Letter[Upcast]):
    """And says what it is there."""

    states = Step
    effects = (_sends(),)

    @workflow.run
    async def run(self, letter: Upcast) -> None:
        """See the base class."""
        await self.lead(letter)


@workflow.defn(name=NAME)
class SnapshotDemanding(_Letter[Letter]):
    """The snapshot has a field that those of before lack."""

    states = Step
    effects = (_sends(),)
    keeps = KeptMore

    @workflow.run
    async def run(self, letter: Letter) -> None:
        """See the base class."""
        await self.lead(letter)


@workflow.defn(name=NAME)
class SnapshotWithDefault(_Letter[Letter]):
    """And a default for it."""

    states = Step
    effects = (_sends(),)
    keeps = KeptMoreOrLess

    @workflow.run
    async def run(self, letter: Letter) -> None:
        """See the base class."""
        await self.lead(letter)


@workflow.defn(name=NAME)
class ReceiptDemanding(_Letter[Letter]):
    """The receipt has a field that those of before lack."""

    states = Step
    effects = (_sends(Stamped),)

    @workflow.run
    async def run(self, letter: Letter) -> None:
        """See the base class."""
        await self.lead(letter)


@workflow.defn(name=NAME)
class ReceiptWithDefault(_Letter[Letter]):
    """And a default for it."""

    states = Step
    effects = (_sends(MaybeStamped),)

    @workflow.run
    async def run(self, letter: Letter) -> None:
        """See the base class."""
        await self.lead(letter)


@workflow.defn(name=NAME)
class SendsMore(_Letter[Letter]):
    """What is sent has one field more."""

    states = Step
    effects = (_sends(given=Weighed),)
    sends = Weighed

    @workflow.run
    async def run(self, letter: Letter) -> None:
        """See the base class."""
        await self.lead(letter)
