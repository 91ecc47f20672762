"""A lifecycle all of whose code raises errors that quote the same address, each entity at another place.

The address stands in no input, and no line of code spells it, so that wherever it is found an error has quoted it.
"""

from __future__ import annotations

import smtplib
from collections.abc import Callable
from datetime import timedelta
from enum import StrEnum
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, TypeAdapter, field_validator
from temporalio import workflow

from perdure import (
    App,
    AppColumn,
    AskFirst,
    Attempt,
    Effect,
    Escalate,
    Lifecycle,
    Lookup,
    LookupContext,
    Step,
    StepContext,
    state,
)
from perdure.errors import PerdureError

ADDRESS = "@".join(("ann", "marked.example"))


class Letter(BaseModel):
    """What quotes it where it is read."""

    to: int
    kind: Literal["letter"] = "letter"

    @field_validator("to", mode="before")
    @classmethod
    def check(cls, value: object) -> object:
        """Refuse an address, with its text."""
        if value == ADDRESS:
            raise ValueError(f"{value} is no number")
        return value


class TheirError(PerdureError):
    """An app's own error, below one of perdure's."""


class RequestException(OSError):
    """As the library requests has it."""


def _invalid() -> None:
    Letter.model_validate({"to": ADDRESS, ADDRESS: 1})


def _keys() -> None:
    TypeAdapter(dict[str, int]).validate_python({ADDRESS: "x"})


def _missing_file() -> None:
    Path(f"/nowhere/{ADDRESS}").read_text()


def _chained() -> None:
    try:
        raise KeyError(ADDRESS)
    except KeyError as error:
        raise RuntimeError(f"no letter to {ADDRESS}") from error


def _raising(error: Exception) -> Callable[[], None]:
    def fail() -> None:
        raise error

    return fail


KINDS: dict[str, Callable[[], None]] = {
    "smtp": _raising(smtplib.SMTPRecipientsRefused({ADDRESS: (550, ADDRESS.encode())})),
    "sender": _raising(smtplib.SMTPSenderRefused(550, ADDRESS.encode(), ADDRESS)),
    "requests": _raising(RequestException(f"https://mail.example/?to={ADDRESS}")),
    "system": _raising(OSError(5, ADDRESS, ADDRESS)),
    "refused": _raising(ConnectionRefusedError(111, f"Connect call failed {ADDRESS}")),
    "unnumbered": _raising(TimeoutError(ADDRESS)),
    "file": _missing_file,
    "key": _raising(KeyError(ADDRESS)),
    "value": _raising(ValueError(ADDRESS)),
    "type": _raising(TypeError(ADDRESS)),
    "theirs": _raising(TheirError(ADDRESS)),
    "group": _raising(ExceptionGroup(ADDRESS, [ValueError(ADDRESS)])),
    "chained": _chained,
    "invalid": _invalid,
    "keys": _keys,
}
PLACES = ("body", "inline", "find", "step", "code", "message", "receipt")


class Stage(StrEnum):
    """Where it is."""

    NEW = "new"
    OVER = state("over", final=True)


BODY = Effect[str, Letter]("quote", timeout=timedelta(seconds=5), doubt=Escalate())
INLINE = Effect[str, Letter]("quote-inline", timeout=timedelta(seconds=5), doubt=Escalate(), inline=True)
FIND = Lookup[str, Letter]("find-quote")
ASKED = Effect[str, Letter](
    "quote-asked",
    timeout=timedelta(seconds=5),
    doubt=AskFirst(FIND, visibility_delay=timedelta(0), every=timedelta(seconds=0.1), tries=1, otherwise=Escalate()),
)
TAKE = Step[str, Letter]("take-quote", timeout=timedelta(seconds=5))


@BODY.performs
async def quote(kind: str, attempt: Attempt) -> Letter:
    """Quote, or give what is no receipt."""
    if kind == "receipt":
        return Letter.model_construct(to=ADDRESS)  # type: ignore[arg-type]
    KINDS[kind]()
    raise AssertionError


@INLINE.performs
async def quote_inline(kind: str, attempt: Attempt) -> Letter:
    """Quote."""
    KINDS[kind]()
    raise AssertionError


@FIND.answers
async def find_quote(kind: str, question: LookupContext) -> Letter | None:
    """Quote."""
    KINDS[kind]()
    return None


@ASKED.performs
async def quote_asked(kind: str, attempt: Attempt) -> Letter:
    """Quote."""
    KINDS[kind]()
    raise AssertionError


@TAKE.takes
async def take_quote(kind: str, occasion: StepContext) -> Letter:
    """Quote."""
    KINDS[kind]()
    raise AssertionError


class Case(BaseModel):
    """Where which kind is raised."""

    place: str
    kind: str


@workflow.defn(name="quoting", sandboxed=False)
class Quoting(Lifecycle[Case, Stage]):
    """Quotes."""

    effects = (BODY, INLINE, ASKED)
    steps = (TAKE,)

    @workflow.signal
    async def read(self, letter: Letter) -> None:
        """What can't be read."""

    @workflow.signal
    async def fail(self, kind: str) -> None:
        """A handler whose code is wrong."""
        KINDS[kind]()

    @workflow.run
    async def run(self, case: Case) -> None:
        """Quote at one place."""
        match case.place:
            case "body":
                await self.perform(BODY, case.kind)
            case "receipt":
                await self.perform(BODY, "receipt")
            case "inline":
                await self.perform(INLINE, case.kind)
            case "find":
                await self.perform(ASKED, case.kind)
            case "step":
                await self.step(TAKE, case.kind)
            case "code":
                KINDS[case.kind]()
            case _:
                await self.wait_for(lambda: False)
        await self.enter(Stage.OVER)


@workflow.defn(name="showing")
class Showing(Quoting):
    """Its column in the app's table refuses every value, and quotes the app's row."""

    mirror = AppColumn("letter", column="state")

    @workflow.run
    async def run(self, case: Case) -> None:
        """Show another state, which is refused."""
        await self.enter(Stage.OVER)


TABLE = f"""
    create table letter (id text primary key, state text, recipient text,
        constraint no_state check (state is null));
    create function refuse() returns trigger language plpgsql as $$
        begin raise exception 'no letter to %', new.recipient; end $$;
    create trigger refuse before update on letter for each row when (new.id = 'trigger') execute function refuse();
    insert into letter values ('check', null, '{ADDRESS}'), ('trigger', null, '{ADDRESS}');
"""

app = App([Quoting, Showing], [quote, quote_inline, find_quote, quote_asked, take_quote])
