"""Random lifecycles: one class that interprets the program of an entity, under several names and in two builds."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Any, ClassVar

from pydantic import BaseModel, Field
from temporalio import workflow

from perdure._wire.requests import OperatorRequest
from perdure._workflow.lifecycle import Lifecycle
from perdure.contracts.effects import Effect
from perdure.contracts.outcomes import Done
from perdure.contracts.steps import Step
from perdure.testing.exploring.contracts import COUNT, contracts, own_terms
from perdure.testing.exploring.programs import (
    BUG,
    FOUND,
    NAME,
    ORDER,
    OTHER,
    SECOND,
    TELL,
    Child,
    Place,
    Program,
    of_message,
    of_round,
)


class Kept(BaseModel):
    """The snapshot.

    Attributes:
        received: texts of messages.
        updated: texts of updates.
        renewed: how many words `renew` are done.
        rounds: how many rounds are over.
    """

    received: list[str] = Field(default_factory=list)
    updated: list[str] = Field(default_factory=list)
    renewed: int = 0
    rounds: int = 0


class Interpreter(Lifecycle[Any, Any]):
    """The common part of all builds.

    Attributes:
        pace: how long it takes what takes a second in virtual time.
        build: its number.
    """

    pace: ClassVar[float] = 1.0
    build: ClassVar[int] = 0

    def __init__(self) -> None:
        self.received: list[str] = []
        self.updated: list[str] = []
        self._renewed = self._renewals = self._rounds = 0
        self._given: Program | None = None
        self._locks: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._detached: list[asyncio.Task[None]] = []

    async def _interpret(self, given: Program) -> None:
        kept = self.restore(Kept)
        if kept is not None:
            self.received, self.updated = kept.received + self.received, kept.updated + self.updated
            self._renewed, self._rounds = kept.renewed, kept.rounds
        self._given = given
        await self._all(given.steps)
        if self.state is not Place.ENDED:
            await self.enter(Place.ENDED)

    async def cancelling(self, request: OperatorRequest) -> None:
        await self._all(self._program.at_cancel)

    @workflow.signal
    async def note(self, text: str) -> None:
        self.received.append(text)
        await self.wait_for(lambda: self._given is not None)
        await self._all(of_message(self._program.at_message, text))

    @workflow.update
    async def append(self, text: str) -> str:
        self.updated.append(text)
        await self.wait_for(lambda: self._given is not None)
        if self._program.at_update:
            # The server can lose the update until its workflow task is over, with what its handler has done.
            await self._perdure.run.events.next_task("the update is on record")
            await self._all(of_message(self._program.at_update, text))
        return text

    @property
    def _program(self) -> Program:
        return self._given or Program(steps=[])

    def after(self, seconds: float) -> datetime:
        """A time, counted from the start of the entity."""
        return self.started_at + timedelta(seconds=seconds * self.pace)

    def confirmation(self, slot: str) -> str | None:
        """The receipt of an effect, if a message has confirmed that it was done."""
        return next((text for text in self.received if text.endswith(f" confirms {slot}")), None)

    def snapshot(self) -> Kept:
        return Kept(received=self.received, updated=self.updated, renewed=self._renewed, rounds=self._rounds)

    async def _all(self, steps: Sequence[Any]) -> None:
        for word, *arguments in steps:
            await self._one(word, arguments)

    async def _one(self, word: str, arguments: Sequence[Any]) -> None:
        match word:
            case "perform":
                await _perform(self, arguments, self._program.secret)
            case "gather":
                await asyncio.gather(*(self._all(each) for each in arguments[0]))
            case "group":
                async with asyncio.TaskGroup() as group:
                    for each in arguments[0]:
                        group.create_task(self._all(each))
            case "race":
                await self._race(arguments[0])
            case "within":
                await self._within(*arguments)
            case "shield":
                await asyncio.shield(self._all(arguments[0]))
            case "lock":
                async with self._locks[arguments[0]]:
                    await self._all(arguments[1])
            case "detached":
                self._detached.append(asyncio.create_task(self._all(arguments[0])))
            case "join":
                await asyncio.gather(*self._detached)
            case "until":
                await self.wait_until(self.after(arguments[0]))
            case "messages":
                until = self.after(arguments[1]) if arguments[1:] else None
                await self.wait_for(lambda: len(self.received) >= arguments[0], until=until)
            case "step":
                await self.step(COUNT, self._program.secret)
            case "enter":
                await _come_before(self, Place(arguments[0]))
                await self.enter(Place(arguments[0]))
            case "advance":
                if _place(self) == ORDER.index(Place(arguments[0])) - 1:
                    await self.enter(Place(arguments[0]))
            case "advanced":
                place = ORDER.index(Place(arguments[0]))
                await self.wait_for(lambda: _place(self) >= place or len(self.received) >= _MANY)
            case "bug":
                await asyncio.sleep(0)  # all handlers of the task have begun: the SDK leaves the others without an end
                if self.build == 0:
                    raise RuntimeError(BUG)
            case "retry":
                await self.retry_requested()
            case "save":
                await self.save()
            case "renew":
                self._renewals += 1
                if self._renewals > self._renewed:
                    self._renewed = self._renewals
                    await self.continue_as_new()
            case "start":
                lifecycle, number, program = arguments
                child = Child(lifecycle=lifecycle, id=f"{number}-of-{self.entity.id}", program=program)
                await self.step(FOUND, child)
            case "tell":
                await self.step(TELL, self.entity.id)
            case "rounds":
                await self._go_round(*arguments)
            case _:
                raise ValueError(f"{word!r} is no word of a program")

    async def _go_round(self, times: int, more: Mapping[str, Any], steps: Sequence[Any]) -> None:
        kept = more.get("kept")
        for number in range(self._rounds if kept else 0, times):
            await self._all(of_round(steps, number, more.get("same", False)))
            if kept == "before":
                self._rounds = number + 1
            await _come_before(self, Place.REST)
            await self.enter(Place.REST)
            if kept == "after":
                self._rounds = number + 1

    async def _race(self, programs: Sequence[Sequence[Any]]) -> None:
        tasks = [asyncio.ensure_future(self._all(each)) for each in programs]
        await workflow.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for each in tasks:
            each.cancel()
        await workflow.wait(tasks)

    async def _within(self, seconds: float, steps: Sequence[Any]) -> None:
        left = (self.after(seconds) - workflow.now()).total_seconds()
        with suppress(TimeoutError):
            async with asyncio.timeout(max(left, 0.0)):
                await self._all(steps)


async def _perform(lifecycle: Interpreter, arguments: Sequence[Any], secret: str) -> None:
    name, suffix, more = arguments
    effect = next(each for each in lifecycle.effects if each.identity == name)
    at = lifecycle.after(more["expires"]) if "expires" in more else None
    entering, then = (Place(more[each]) if each in more else None for each in ("entering", "then"))
    given = f"{name} {suffix} {secret}" + (f" of build {lifecycle.build}" if more.get("varies") else "")
    given += " large" if more.get("large") else ""
    own = own_terms(effect, more["own"], lifecycle.pace) if "own" in more else {}
    if more.get("confirmed"):
        own["confirmed_by"] = lambda: lifecycle.confirmation(f"{name}/{suffix}")
    while True:
        await _come_before(lifecycle, entering or then)
        if more.get("until"):
            await lifecycle.perform_until_done(
                effect, given, otherwise=Place.HELD, entering=entering, then=then, suffix=suffix, **own
            )
            return
        end = await lifecycle.perform(effect, given, entering=entering, then=then, suffix=suffix, expires_at=at, **own)
        if isinstance(end, Done):
            ended = lifecycle.state is Place.ENDED or entering is None
            if not (ended or entering not in ORDER or ORDER.index(entering) <= _place(lifecycle)):
                raise RuntimeError(f"{name} is done, and the state that it was to enter is not entered")
            return
        if not more.get("again"):
            return
        await lifecycle.retry_requested()


async def _come_before(lifecycle: Any, place: Place | None) -> None:
    """Enter the states that were left out on the way to `place`, since what was to enter them was never begun."""
    if place is Place.REST and lifecycle.state is Place.S0:
        await lifecycle.enter(Place.TURN)
    while place in ORDER and place is not Place.ENDED and _place(lifecycle) < ORDER.index(place) - 1:
        await lifecycle.enter(ORDER[_place(lifecycle) + 1])


def _place(lifecycle: Any) -> int:
    """How far a lifecycle is in the order of its states. From `HELD` it can go anywhere, from `CANCELLED` nowhere."""
    if lifecycle.state in (Place.TURN, Place.REST):
        return 0
    return ORDER.index(lifecycle.state) if lifecycle.state in ORDER else len(ORDER)


_MANY = 4
"""Messages after which nobody waits for the handler of another one."""
_STEPS: tuple[Step[Any, Any], ...] = (COUNT, FOUND, TELL)


@workflow.defn(name=NAME)
class Explored(Interpreter, Lifecycle[Program, Place]):
    """The interpreter, of one build."""

    effects: ClassVar[tuple[Effect[Any, Any], ...]] = tuple(contracts(0).values())
    steps: ClassVar[tuple[Step[Any, Any], ...]] = _STEPS

    @workflow.run
    async def run(self, given: Program) -> None:
        await self._interpret(given)


@workflow.defn(name=NAME)
class ExploredLater(Interpreter, Lifecycle[Program, Place]):
    """The interpreter, of a later build: its effects have other terms, and it takes one signal more."""

    build: ClassVar[int] = 1
    effects: ClassVar[tuple[Effect[Any, Any], ...]] = tuple(contracts(1).values())
    steps: ClassVar[tuple[Step[Any, Any], ...]] = _STEPS

    @workflow.run
    async def run(self, given: Program) -> None:
        await self._interpret(given)

    @workflow.signal
    def remark(self, text: str) -> None:
        self.received.append(text)


@workflow.defn(name=OTHER)
class Other(Interpreter, Lifecycle[Program, Place]):
    """The interpreter under another name, in one build."""

    effects: ClassVar[tuple[Effect[Any, Any], ...]] = tuple(contracts(0).values())
    steps: ClassVar[tuple[Step[Any, Any], ...]] = _STEPS

    @workflow.run
    async def run(self, given: Program) -> None:
        await self._interpret(given)


@workflow.defn(name=OTHER)
class OtherLater(Interpreter, Lifecycle[Program, Place]):
    """The interpreter under another name, in a later build."""

    build: ClassVar[int] = 1
    effects: ClassVar[tuple[Effect[Any, Any], ...]] = tuple(contracts(1).values())
    steps: ClassVar[tuple[Step[Any, Any], ...]] = _STEPS

    @workflow.run
    async def run(self, given: Program) -> None:
        await self._interpret(given)


@workflow.defn(name=SECOND)
class Second(Interpreter, Lifecycle[Program, Place]):
    """The interpreter under a name that only the later build has."""

    build: ClassVar[int] = 1
    effects: ClassVar[tuple[Effect[Any, Any], ...]] = tuple(contracts(1).values())
    steps: ClassVar[tuple[Step[Any, Any], ...]] = _STEPS

    @workflow.run
    async def run(self, given: Program) -> None:
        await self._interpret(given)


LIFECYCLES: dict[int, tuple[type[Lifecycle[Program, Place]], ...]] = {
    0: (Explored, Other),
    1: (ExploredLater, OtherLater, Second),
}
