"""Random lifecycles: one class that interprets a program.

A program is a list of steps, each a list that begins with its word:

    ["perform", effect, suffix, {"entering": state, "then": state, "expires": seconds, "again": bool}]
    ["gather", [program, ...]]     ["group", [program, ...]]     ["until", seconds]     ["messages", how many, until]
    ["race", [program, ...]]     ["within", seconds, program]     ["step"]     ["enter", state]     ["save"]
    ["renew"]     ["retry"]     ["start", lifecycle, number, program]     ["tell"]
    ["rounds", how many, {"kept": "before" or "after", "same": bool}, program]

`perform` has as well: `until` = it is performed until it is done, and waits in `HELD` for each retry; `own` = terms of
its own, one of `OWN`; `confirmed` = a message may confirm it; `varies` = a newer build gives it another input; `large`
= its receipt is too large for the older build. `race` and `within` cancel what they leave. `rounds` goes round between
`TURN` and `REST`, with a suffix for each round, unless all have the `same` keys; `kept` = the snapshot counts rounds,
before a round enters its last state or after that. `start` starts another entity by a step; with `tell` that one sends
a message to its starter. Times are counted from the start of the entity, so that a run that starts from its top finds
the same ones.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, ClassVar

from pydantic import BaseModel, Field
from temporalio import workflow

from perdure._wire.requests import OperatorRequest
from perdure._workflow.lifecycle import Lifecycle
from perdure.contracts.effects import Effect
from perdure.contracts.outcomes import Done
from perdure.contracts.states import state
from perdure.contracts.steps import Step
from perdure.testing.exploring.contracts import COUNT, contracts, own_terms

NAME, OTHER, SECOND = "explored", "other", "second"
"""The lifecycle that is explored, one that it starts, and one that only the newer build has."""
SECONDS_OF_ROUND = 7
"""How much later what has a time is, in each further round."""


class Program(BaseModel):
    """The program of one entity.

    Attributes:
        steps: the program of `run`.
        at_cancel: the program of `cancelling`.
        at_message: the program of the handler of a message.
        secret: personal data, which may stand in payloads only.
    """

    steps: list[Any]
    at_cancel: list[Any] = Field(default_factory=list)
    at_message: list[Any] = Field(default_factory=list)
    secret: str = ""

    @property
    def has_large_receipt(self) -> bool:
        """Whether a receipt may be too large for the older build."""
        return '"large":true' in self.model_dump_json()


class Child(BaseModel):
    """An entity that another one starts."""

    lifecycle: str
    id: str
    program: Program


FOUND = Step[Child, str]("found", timeout=timedelta(seconds=2))
"""Starts an entity, in a transaction of the application."""
TELL = Step[str, str]("tell", timeout=timedelta(seconds=2))
"""Sends a message to the entity that has started this one."""


def starter_of(entity_id: str) -> str:
    """The id of the entity that has started this one."""
    return entity_id.partition("-of-")[2]


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


class Place(StrEnum):
    """States, in their order; each leads to the next one, and to both ends. A person may be needed between any two.
    After the first one, `TURN` and `REST` may follow each other again and again."""

    S0 = state("s0", leads_to=("turn", "s1", "held", "ended"))
    TURN = state("turn", leads_to=("rest", "held"))
    REST = state("rest", leads_to=("turn", "s1", "held", "ended"))
    S1 = state("s1", leads_to=("s2", "held", "ended"))
    S2 = state("s2", leads_to=("s3", "held", "ended"))
    S3 = state("s3", leads_to=("s4", "held", "ended"))
    S4 = state("s4", leads_to=("s5", "held", "ended"))
    S5 = state("s5", leads_to=("held", "ended"))
    HELD = state("held", attention=True)
    ENDED = state("ended", final=True)
    CANCELLED = state("cancelled", cancelled=True)


ORDER = (Place.S0, Place.S1, Place.S2, Place.S3, Place.S4, Place.S5, Place.ENDED)


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
    """How far a lifecycle is in the order of its states. From `HELD` it can go anywhere."""
    if lifecycle.state in (Place.TURN, Place.REST):
        return 0
    return len(ORDER) if lifecycle.state is Place.HELD else ORDER.index(lifecycle.state)


def _of_round(steps: Sequence[Any], number: int, same: bool) -> Iterator[list[Any]]:
    """A program, as a round has it: with keys and times of its own."""
    for word, *arguments in steps:
        match word:
            case "perform":
                name, suffix, more = arguments
                if "expires" in more:
                    more = {**more, "expires": more["expires"] + number * SECONDS_OF_ROUND}
                yield [word, name, suffix if same else f"{suffix}.{number}", more]
            case "until":
                yield [word, arguments[0] + number * SECONDS_OF_ROUND]
            case "gather" | "group" | "race":
                yield [word, [[*_of_round(branch, number, same)] for branch in arguments[0]]]
            case "within":
                seconds, inside = arguments
                yield [word, seconds + number * SECONDS_OF_ROUND, [*_of_round(inside, number, same)]]
            case _:
                yield [word, *arguments]


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
        self._given = Program(steps=[])

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
        await self._all(self._given.at_cancel)

    @workflow.signal
    async def note(self, text: str) -> None:
        self.received.append(text)
        for word, name, suffix, more in self._given.at_message:
            await self._one(word, [name, f"{suffix}-{text}", more])

    @workflow.update
    async def append(self, text: str) -> str:
        self.updated.append(text)
        return text

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
                await _perform(self, arguments, self._given.secret)
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
            case "until":
                await self.wait_until(self.after(arguments[0]))
            case "messages":
                until = self.after(arguments[1]) if arguments[1:] else None
                await self.wait_for(lambda: len(self.received) >= arguments[0], until=until)
            case "step":
                await self.step(COUNT, self._given.secret)
            case "enter":
                await _come_before(self, Place(arguments[0]))
                await self.enter(Place(arguments[0]))
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
            await self._all([*_of_round(steps, number, more.get("same", False))])
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
