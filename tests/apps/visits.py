"""Visits of patients, for the tests of erasure: each place that can hold text of a person holds some."""

from __future__ import annotations

from datetime import timedelta
from enum import StrEnum

from pydantic import BaseModel
from temporalio import workflow

from perdure import App, AppColumn, Attempt, Done, Effect, Escalate, Lifecycle, NotPerformed, state
from perdure.contracts import Erasure

TABLES = """
    create table visit (id bigint primary key, state text not null default 'booked', name text);
    create table visit_letter (id text primary key, visit bigint not null, address text);
"""


class Booked(BaseModel):
    """Who comes."""

    name: str


class Registered(BaseModel):
    """The receipt of the register."""

    entry: str


class Remarks(BaseModel):
    """What was said about the visit."""

    said: list[str]


class Stage(StrEnum):
    """Where a visit is."""

    BOOKED = "booked"
    REGISTERED = "registered"
    OVER = state("over", final=True)
    ABSENT = state("absent", cancelled=True)


REGISTER = Effect[Booked, Registered]("register-visit", timeout=timedelta(seconds=10), doubt=Escalate())


@REGISTER.performs
async def register(booked: Booked, attempt: Attempt) -> Registered:
    """Notes a look-up hint, and is registered by itself."""
    await attempt.note({"of": booked.name})
    attempt.heartbeat({"at": booked.name})
    return Registered(entry=f"entry of {booked.name}")


class _Registering(Lifecycle[Booked, Stage]):
    async def register(self, booked: Booked) -> None:
        """Perform the effect."""
        match await self.perform(REGISTER, booked, then=Stage.REGISTERED):
            case Done(receipt):
                workflow.set_current_details(receipt.entry)
            case NotPerformed(why):
                await self.enter(Stage.ABSENT, why=why)


@workflow.defn(name="letter")
class Letter(_Registering):
    """A letter about a visit: declares no erasure."""

    effects = (REGISTER,)

    @workflow.run
    async def run(self, booked: Booked) -> None:
        """See the base class."""
        await self.register(booked)
        await self.enter(Stage.OVER)


@workflow.defn(name="visit")
class Visit(_Registering):
    """Waits for remarks; the last one is `over`."""

    effects = (REGISTER,)
    mirror = AppColumn("visit", column="state")
    erasure = Erasure(
        entities="select 'letter' as lifecycle, id from visit_letter where visit = $1",
        rows={
            "visit_letter": "delete from visit_letter where visit = $1",
            "visit": "update visit set name = null where id = $1",
        },
        elsewhere=("the register keeps its entry: ask the registrar",),
    )

    def __init__(self) -> None:
        self.said: list[str] = []

    def snapshot(self) -> Remarks:
        """What was said."""
        return Remarks(said=self.said)

    @workflow.run
    async def run(self, booked: Booked) -> None:
        """See the base class."""
        self.said[:0] = (self.restore(Remarks) or Remarks(said=[])).said
        await self.register(booked)
        await self.wait_for(lambda: "over" in self.said)
        await self.enter(Stage.OVER, why=f"why {booked.name}")

    @workflow.signal
    def remark(self, text: str) -> None:
        """Somebody says something about it."""
        self.said.append(text)


app = App(lifecycles=[Visit, Letter], effects=[register])
