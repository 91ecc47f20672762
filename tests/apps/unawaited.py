"""Lifecycles that forget an `await`. Each has one line that is refused; its comment says what to write instead."""

# mypy: disable-error-code="unused-coroutine, truthy-bool, exhaustive-match"
# An author who runs mypy sees most of these mistakes there.

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from datetime import timedelta
from enum import StrEnum
from typing import Any

from pydantic import BaseModel
from temporalio import workflow

from perdure import Attempt, Done, Escalate, Lifecycle, effect, state


class Stage(StrEnum):
    """The states of all of them."""

    NEW = "new"
    STUCK = state("stuck", attention=True)
    DONE = state("done", final=True)


@effect(timeout=timedelta(seconds=10), doubt=Escalate())
async def send(given: str, attempt: Attempt) -> str:
    """An effect."""
    return given


@workflow.defn(name="performs")
class Performs(Lifecycle[str, Stage]):
    effects = (send,)

    @workflow.run
    async def run(self, given: str) -> None:
        self.perform(send, given)  # refused: await self.perform(...)
        await self.enter(Stage.DONE)


@workflow.defn(name="performs-until-done")
class PerformsUntilDone(Lifecycle[str, Stage]):
    effects = (send,)

    @workflow.run
    async def run(self, given: str) -> None:
        given and self.perform_until_done(send, given, otherwise=Stage.STUCK)  # refused: await self.perform_until_done
        await self.enter(Stage.DONE)


@workflow.defn(name="enters")
class Enters(Lifecycle[str, Stage]):
    @workflow.run
    async def run(self, given: str) -> None:
        self.enter(Stage.DONE)  # refused: await self.enter(...)


@workflow.defn(name="saves")
class Saves(Lifecycle[str, Stage]):
    @workflow.run
    async def run(self, given: str) -> None:
        await self.enter(Stage.DONE)

    @workflow.update
    async def change(self, given: str) -> None:
        """A message."""
        self.save()  # refused: await self.save(...)


@workflow.defn(name="waits")
class Waits(Lifecycle[str, Stage]):
    @workflow.run
    async def run(self, given: str) -> None:
        if given and not self.wait_for(lambda: False, until=self.started_at):  # refused: await self.wait_for(...)
            await self.enter(Stage.STUCK)
        await self.enter(Stage.DONE)


@workflow.defn(name="matches")
class Matches(Lifecycle[str, Stage]):
    effects = (send,)

    @workflow.run
    async def run(self, given: str) -> None:
        match self.perform(send, given):  # refused: await self.perform(...)
            case Done():
                await self.enter(Stage.DONE)


@workflow.defn(name="of-its-own")
class OfItsOwn(Lifecycle[str, Stage]):
    @workflow.run
    async def run(self, given: str) -> None:
        self.end()  # refused: await self.end(...)

    async def end(self) -> None:
        """A coroutine of the author's."""
        await self.enter(Stage.DONE)


class Draft(BaseModel):
    """A model whose methods have names of coroutines of a lifecycle, and are none."""

    saved: bool = False

    def change(self) -> None:
        """Calls such a method."""
        self.save()

    def save(self) -> None:
        """Is no coroutine."""
        self.saved = True


@workflow.defn(name="awaits")
class Awaits(Lifecycle[str, Stage]):
    """Awaits each coroutine, though not where it is made."""

    effects = (send,)

    @workflow.run
    async def run(self, given: str) -> None:
        Draft().change()
        first = self.perform(send, given, suffix="first")
        second = asyncio.create_task(self.perform(send, given, suffix="second"))
        await asyncio.gather(first, second, *[self.perform(send, given, suffix=each) for each in ("a", "b")])
        async with asyncio.TaskGroup() as group:
            group.create_task(self.perform(send, given, suffix="third"))
        if await self.wait_for(lambda: True) and isinstance(await self._sent(given), Done):
            self.report(None)
        await (self.enter(Stage.DONE) if given else self.enter(Stage.STUCK))

    def _sent(self, given: str) -> Coroutine[Any, Any, Any]:
        return self.perform(send, given, suffix="fourth")
