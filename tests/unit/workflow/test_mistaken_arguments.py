"""A wrong argument in the author's code gets one error that names it, and the way out."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any
from uuid import UUID

import pytest
from pydantic import BaseModel
from temporalio import workflow

from perdure import Done, Effect, Escalate, InDoubt, Lifecycle, state
from perdure.contracts.outcomes import Abandoned, DifferentInput, Expired, GaveUp, NotPerformed, WasRefused
from perdure.errors import DeclarationError, InvalidInput
from perdure.testing import START, rehearse

SEND = Effect[str, str]("send", timeout=timedelta(seconds=5), doubt=Escalate())
NAIVE = datetime(2031, 1, 1)


class Way(StrEnum):
    NEW = "new"
    GOING = "going"
    DONE = state("done", final=True)


class Short(BaseModel):
    """What a snapshot declares."""


class Longer(Short):
    """What it gets."""

    note: str


class Kept(BaseModel):
    """A snapshot."""

    last: Short


async def confirmed() -> Any:
    """An async function where a function is called and not awaited."""
    return "yes"


@workflow.defn(name="mistaken")
class Mistaken(Lifecycle[str, Way]):
    """Makes the mistake of that name."""

    effects = (SEND,)

    def __init__(self) -> None:
        self.kept: Any = None

    def snapshot(self) -> Any:
        return self.kept

    @workflow.run
    async def run(self, mistake: str) -> None:
        await MISTAKES[mistake][0](self)
        await self.enter(Way.DONE)

    async def _keep(self, kept: Any) -> None:
        self.kept = kept
        await self.enter(Way.GOING)

    async def _again_after_a_time_out(self) -> None:
        performing = asyncio.create_task(self.perform(SEND, "x"))
        await asyncio.sleep(0)
        await self.perform(SEND, "x")
        await performing

    async def _go_if_it_is_sent(self) -> None:
        if await self.perform(SEND, "x", expires_at=START):
            await self.enter(Way.GOING)


def suffix(given: Any) -> Callable[[Any], Awaitable[Any]]:
    """Performs under a suffix."""
    return lambda its: its.perform(SEND, "x", suffix=given)


MISTAKES: dict[str, tuple[Callable[[Any], Awaitable[Any]], type[Exception], str]] = {
    "suffix 1": (suffix(1), InvalidInput, "mistaken/1: send: the suffix 1 is of type int: give a str, such as '1'"),
    "suffix 0": (suffix(0), InvalidInput, "the suffix 0 is of type int: give a str, such as '0'"),
    "a UUID": (suffix(UUID(int=7)), InvalidInput, r"is of type UUID: give a str, such as '0{8}-.*7'"),
    "no suffix": (suffix(""), InvalidInput, "the suffix '' is empty, .* give an id, or no suffix"),
    "wait_until": (lambda its: its.wait_until(NAIVE), DeclarationError, r"2031, 1, 1, .* no time with a time zone"),
    "wait_for": (lambda its: its.wait_for(lambda: False, until=NAIVE), DeclarationError, "no time with a time zone"),
    "expires_at": (lambda its: its.perform(SEND, "x", expires_at=NAIVE), DeclarationError, "no time with a time zone"),
    "a span": (lambda its: its.wait_until(timedelta(1)), DeclarationError, r"timedelta\(days=1\) is no time"),
    "timeout": (lambda its: its.perform(SEND, "x", timeout=5), DeclarationError, "send: timeout=5 is of type int"),
    "doubt": (lambda its: its.perform(SEND, "x", doubt=Escalate), DeclarationError, "send: doubt=.* is a class"),
    "retry": (lambda its: its.perform(SEND, "x", retry=3), DeclarationError, "send: retry=3 is of type int"),
    "enter": (lambda its: its.enter("going"), DeclarationError, "'going' is of type str: .* such as Way.GOING"),
    "entering": (lambda its: its.perform(SEND, "x", entering="going"), DeclarationError, "such as Way.GOING"),
    "then": (lambda its: its.perform(SEND, "x", then="over"), DeclarationError, "'over' is of type str: .* Way.NEW"),
    "why": (lambda its: its.enter(Way.GOING, why=ValueError("secret")), DeclarationError, "^(?!.*secret).*ValueError"),
    "snapshot": (
        lambda its: its._keep({"a": 1}),
        DeclarationError,
        r"mistaken/1: snapshot\(\) returned a dict: return",
    ),
    "a subclass": (
        lambda its: its._keep(Kept(last=Longer(note="secret"))),
        InvalidInput,
        "mistaken/1: the snapshot can't be kept: last.note is not written",
    ),
    "async": (
        lambda its: its.wait_for(confirmed),
        DeclarationError,
        "Mistaken: wait_for: confirmed is async, .* `async`",
    ),
    "coroutine": (lambda its: its.wait_for(confirmed()), DeclarationError, "wait_for: .*confirmed.* is async"),
    "no function": (lambda its: its.wait_for(True), DeclarationError, "True is no function"),
    "confirmed_by": (
        lambda its: its.perform(SEND, "x", confirmed_by=confirmed),
        DeclarationError,
        "mistaken/1/send: confirmed_by: confirmed is async",
    ),
    "surrogate": (lambda its: its.perform(SEND, "\ud800"), InvalidInput, "send: the input has a lone surrogate"),
    "again": (
        lambda its: its._again_after_a_time_out(),
        DeclarationError,
        "mistaken/1/send is being performed already: await the task that performs it, or, .* give .* another suffix",
    ),
    "an outcome as a condition": (
        lambda its: its._go_if_it_is_sent(),
        DeclarationError,
        r"Expired is an outcome of an effect, .*: match it against Done\(receipt\) and NotPerformed\(why\)",
    ),
}


@pytest.mark.parametrize("mistake", MISTAKES)
async def test_a_wrong_argument_is_named(mistake: str) -> None:
    _, kind, why = MISTAKES[mistake]
    with pytest.raises(kind, match=why) as refused:
        await rehearse(Mistaken, mistake, {SEND: [InDoubt("cut")]}, allow_unused=True)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("kind", [Done, NotPerformed, WasRefused, Expired, Abandoned, GaveUp, DifferentInput])
def test_no_outcome_has_a_truth_value(kind: type[Any]) -> None:
    with pytest.raises(DeclarationError, match=rf"^{kind.__name__} is an outcome of an effect, which") as refused:
        bool(kind("secret"))
    assert "secret" not in str(refused.value)
