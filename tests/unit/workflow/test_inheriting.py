"""A lifecycle may have its handlers from a mixin, and its `run` may call that of another lifecycle."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, Protocol

import pytest
from temporalio import workflow

from perdure import Effect, Lifecycle, Repeat
from perdure.errors import DeclarationError
from perdure.testing import START, At, rehearse
from tests.unit.workflow.test_leaving import ANN, Way

SEND = Effect[str, int]("send", timeout=timedelta(seconds=5), doubt=Repeat())


class Mixin:
    """Handlers for several workflows."""

    words: list[str]

    @workflow.update
    async def wait(self, word: str) -> str:
        self.words.append(word)
        if isinstance(self, Lifecycle):
            await self.wait_for(lambda: len(self.words) > 1)
        return word

    @wait.validator
    def _check_wait(self, word: str) -> None:
        if not word:
            raise ValueError("say a word")

    @workflow.signal
    async def note(self, word: str) -> None:
        self.words.append(word)

    @workflow.signal
    def write(self, word: str) -> None:
        self.words.append(word)


@workflow.defn(name="mixed")
class Mixed(Mixin, Lifecycle[str, Way]):
    def __init__(self) -> None:
        self.words = []

    @workflow.run
    async def run(self, given: str) -> None:
        await self.enter(Way.GOING)
        await self.wait_until(START + timedelta(minutes=1))
        await self.enter(Way.DONE, why=" ".join(self.words))


@workflow.defn(name="also-mixed")
class AlsoMixed(Mixin, Lifecycle[str, Way]):
    @workflow.run
    async def run(self, given: str) -> None: ...


class Plain(Mixin):
    """No lifecycle."""

    def __init__(self) -> None:
        self.words = []


class TestHandlersOfAMixin:
    @pytest.mark.parametrize("renews", [False, True])
    async def test_an_update_is_answered_where_its_run_is_cancelled(self, renews: bool) -> None:
        messages = [At(timedelta(seconds=1), "wait", "a"), At(timedelta(seconds=2), "cancel", ANN)]
        seen = await rehearse(Mixed, "x", {}, messages=messages, renew_at_every_wait=renews)
        assert (seen.end, seen.answers[0].how, seen.answers[0].why) == (
            Way.CANCELLED,
            "failed",
            "ann has requested its end",
        )

    async def test_validators_hold(self) -> None:
        seen = await rehearse(Mixed, "x", {}, messages=[At(timedelta(seconds=1), "wait", "")])
        assert (seen.answers[0].how, seen.answers[0].why) == ("rejected", "say a word")

    async def test_they_take_messages(self) -> None:
        messages = [At(timedelta(seconds=1), each, each) for each in ("note", "write", "wait")]
        seen = await rehearse(Mixed, "x", {}, messages=messages)
        assert [each.how for each in seen.answers] == ["sent", "sent", "completed"]

    async def test_a_plain_workflow_has_them_as_they_are(self) -> None:
        plain, updates = Plain(), Mixin.__dict__["wait"]._defn
        updates.validator(plain, "a")
        assert await updates.fn(plain, "a") == "a"
        note, write = (getattr(Mixin.__dict__[each], "__temporal_signal_definition") for each in ("note", "write"))
        await note.fn(plain, "b")
        write.fn(plain, "c")
        assert plain.words == ["a", "b", "c"]


class Overriding:
    async def save(self) -> None: ...


class Described(Protocol):
    words: list[str]


async def run(self: Any, given: str) -> None: ...


def test_a_mixin_overrides_nothing_that_every_lifecycle_has() -> None:
    body = {"run": workflow.run(run), "__orig_bases__": (Lifecycle[str, Way],)}
    with pytest.raises(DeclarationError, match=r"Overriding\.save overrides what every lifecycle has"):
        type("Wrong", (Overriding, Lifecycle), body)
    type("Right", (Lifecycle, Described), body)


@workflow.defn(name="first")
class First(Lifecycle[str, Way]):
    effects = (SEND,)

    @workflow.run
    async def run(self, given: str) -> None:
        await self.enter(Way.GOING)
        await self.wait_until(START + timedelta(days=1))
        await self.perform(SEND, given)
        await self.enter(Way.DONE)


@workflow.defn(name="derived")
class Derived(First):
    @workflow.run
    async def run(self, given: str) -> None:
        await self.perform(SEND, given, suffix="before")
        await super().run(given)


@pytest.mark.parametrize("renews", [False, True])
async def test_a_run_calls_that_of_its_base_class(renews: bool) -> None:
    seen = await rehearse(Derived, "x", {SEND: [1, 2]}, renew_at_every_wait=renews)
    assert (seen.states, seen.keys, seen.runs > 1) == (
        [Way.GOING, Way.DONE],
        ["derived/1/send/before", "derived/1/send"],
        renews,
    )
