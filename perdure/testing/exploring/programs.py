"""Random lifecycles: one class that interprets a program, and contracts of every policy and way.

A program is a list of steps, each a list that begins with its word:

    ["perform", effect, suffix, {"entering": state, "then": state, "expires": seconds, "again": bool}]
    ["gather", [program, ...]]     ["group", [program, ...]]     ["until", seconds]     ["messages", how many]
    ["step"]     ["enter", state]     ["save"]     ["renew"]

Times are counted from the start of the entity, so that a run that starts from its top finds the same ones.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import datetime, timedelta
from enum import StrEnum
from functools import cache
from random import Random
from typing import Any, ClassVar

from pydantic import BaseModel, Field
from temporalio import workflow

from perdure._wire.requests import OperatorRequest
from perdure._workflow.lifecycle import Lifecycle
from perdure.contracts.effects import Effect, Lookup
from perdure.contracts.limits import RateLimit
from perdure.contracts.outcomes import Done
from perdure.contracts.policies import AskFirst, Dedupe, DoubtPolicy, Escalate, Repeat, RetryPolicy
from perdure.contracts.states import state
from perdure.contracts.steps import Step

NAME = "explored"
DEPTH = 2
"""Levels of nesting of large programs."""
_LARGE = 0.2
"""Share of large programs. Most are small: a run costs what its effects cost, and most mistakes need one or two."""


class Program(BaseModel):
    """The program of one entity.

    Attributes:
        steps: the program of `run`.
        at_cancel: the program of `cancelling`.
        secret: personal data, which may stand in payloads only.
    """

    steps: list[Any]
    at_cancel: list[Any] = Field(default_factory=list)
    secret: str = ""


class Kept(BaseModel):
    """The snapshot."""

    heard: list[str] = Field(default_factory=list)


class Place(StrEnum):
    """States, in their order; each leads to the next one, and to both ends."""

    S0 = state("s0", leads_to=("s1", "ended"))
    S1 = state("s1", leads_to=("s2", "ended"))
    S2 = state("s2", leads_to=("s3", "ended"))
    S3 = state("s3", leads_to=("s4", "ended"))
    S4 = state("s4", leads_to=("s5", "ended"))
    S5 = state("s5", leads_to=("ended",))
    ENDED = state("ended", final=True)
    CANCELLED = state("cancelled", cancelled=True)


_ORDER = (Place.S0, Place.S1, Place.S2, Place.S3, Place.S4, Place.S5, Place.ENDED)


def _policies(build: int, pace: float) -> dict[str, tuple[DoubtPolicy[str, str], RetryPolicy | None, dict[str, Any]]]:
    """By the effect's name: policy, retry, and what else its contract has."""

    def s(seconds: float) -> timedelta:
        return timedelta(seconds=seconds * pace)

    later = s(build)  # a newer build waits a little longer, and that must not matter

    def finds(name: str, **more: Any) -> Lookup[str, str]:
        return Lookup[str, str](f"find-{name}", timeout=s(3), **more)

    def look(name: str, inline: bool = False, **more: Any) -> AskFirst[str, str]:
        more.setdefault("visibility_delay", s(4))
        return AskFirst(finds(name, inline=inline), **more)

    def minute(**more: Any) -> Dedupe:
        return Dedupe(s(60), s(5), **more)

    retry = RetryPolicy(initial_interval=s(1) + later, maximum_interval=s(30))
    twice = RetryPolicy(initial_interval=s(1) + later, maximum_interval=s(30), maximum_attempts=2)
    once = RetryPolicy(initial_interval=s(1), maximum_attempts=1)
    slow = RetryPolicy(initial_interval=s(20), maximum_interval=s(90))
    inline = {"inline": True}
    limit = RateLimit("provider", 0.5 / pace**2)
    return {
        "repeat": (Repeat(), retry, {}),
        "repeat-inline": (Repeat(), twice, inline),
        "dedupe": (minute(), slow, {}),
        "dedupe-inline": (minute(), retry, inline),
        "dedupe-twice": (minute(), twice, {}),
        "dedupe-limited": (minute(), retry, {"limit": limit}),
        "look-up": (look("look-up"), retry, {}),
        "look-up-inline": (look("look-up-inline", inline=True), twice, inline),
        "look-up-on": (look("look-up-on", tries=None), once, inline),
        "look-up-twice": (look("look-up-twice", misses=1 + build, tries=2), twice, {}),
        "escalate": (Escalate(), retry, {}),
        "escalate-inline": (Escalate(), once, inline),
        "escalate-limited": (Escalate(), once, {"limit": limit}),
    }


@cache
def contracts(build: int, pace: float = 1.0) -> dict[str, Effect[str, str]]:
    """Contracts of every policy and way, as a build has them."""
    timeout, waits = timedelta(seconds=5 * pace), timedelta(seconds=25 * pace)
    return {
        name: Effect[str, str](name, timeout=timeout, doubt=doubt, retry=retry, schedule_to_start_timeout=waits, **more)
        for name, (doubt, retry, more) in _policies(build, pace).items()
    }


COUNT = Step[str, str]("count", timeout=timedelta(seconds=2))


async def _perform(lifecycle: Interpreter, arguments: Sequence[Any], secret: str) -> None:
    name, suffix, more = arguments
    effect = next(each for each in lifecycle.effects if each.name == name)
    at = lifecycle.after(more["expires"]) if "expires" in more else None
    entering, then = (Place(more[each]) if each in more else None for each in ("entering", "then"))
    given = f"{name} {suffix} {secret}"
    while True:
        await _come_before(lifecycle, entering or then)
        end = await lifecycle.perform(effect, given, entering=entering, then=then, suffix=suffix, expires_at=at)
        if isinstance(end, Done):
            reached = (
                lifecycle.state is Place.ENDED
                or entering is None
                or _ORDER.index(entering) <= _ORDER.index(lifecycle.state)
            )
            if not reached:
                raise RuntimeError(f"{name} is done, and the state that it was to enter is not entered")
            return
        if not more.get("again"):
            return
        await lifecycle.retry_requested()


async def _come_before(lifecycle: Any, place: Place | None) -> None:
    """Enter the states that were left out on the way to `place`, since what was to enter them was never begun."""
    while place is not None and place is not Place.ENDED and _ORDER.index(lifecycle.state) < _ORDER.index(place) - 1:
        await lifecycle.enter(_ORDER[_ORDER.index(lifecycle.state) + 1])


class Interpreter(Lifecycle[Any, Any]):
    """The common part of all builds.

    Attributes:
        pace: how long it takes what takes a second in virtual time.
    """

    pace: ClassVar[float] = 1.0

    def __init__(self) -> None:
        self.heard: list[str] = []
        self._given = Program(steps=[])

    async def _interpret(self, given: Program) -> None:
        kept = self.restore(Kept)
        if kept is not None:
            self.heard = kept.heard + self.heard
        self._given = given
        await self._all(given.steps)
        if self.state is not Place.ENDED:
            await self.enter(Place.ENDED)

    async def cancelling(self, asked: OperatorRequest) -> None:
        await self._all(self._given.at_cancel)

    @workflow.signal
    def note(self, text: str) -> None:
        self.heard.append(text)

    def after(self, seconds: float) -> datetime:
        """A time, counted from the start of the entity."""
        return self.started_at + timedelta(seconds=seconds * self.pace)

    def snapshot(self) -> Kept:
        return Kept(heard=self.heard)

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
            case "until":
                await self.wait_until(self.after(arguments[0]))
            case "messages":
                await self.wait_for(lambda: len(self.heard) >= arguments[0])
            case "step":
                await self.step(COUNT, self._given.secret)
            case "enter":
                await _come_before(self, Place(arguments[0]))
                await self.enter(Place(arguments[0]))
            case "save":
                await self.save()
            case _:
                raise ValueError(f"{word!r} is no word of a program")


@workflow.defn(name=NAME)
class Explored(Interpreter, Lifecycle[Program, Place]):
    """The interpreter, of one build."""

    effects: ClassVar[tuple[Effect[Any, Any], ...]] = tuple(contracts(0).values())
    steps: ClassVar[tuple[Step[Any, Any], ...]] = (COUNT,)

    @workflow.run
    async def run(self, given: Program) -> None:
        await self._interpret(given)


@workflow.defn(name=NAME)
class ExploredLater(Interpreter, Lifecycle[Program, Place]):
    """The interpreter, of a later build: its effects have other terms."""

    effects: ClassVar[tuple[Effect[Any, Any], ...]] = tuple(contracts(1).values())
    steps: ClassVar[tuple[Step[Any, Any], ...]] = (COUNT,)

    @workflow.run
    async def run(self, given: Program) -> None:
        await self._interpret(given)


LIFECYCLES: dict[int, type[Lifecycle[Program, Place]]] = {0: Explored, 1: ExploredLater}


class Author:
    """Writes random programs.

    Args:
        random: the source of all that is random.
    """

    def __init__(self, random: Random) -> None:
        self._random = random
        self._suffixes = 0
        self._place = 0
        self._names = list(contracts(0))

    def program(self, secret: str) -> Program:
        """A program with its own way to a cancelled end."""
        random = self._random
        large = random.random() < _LARGE
        steps = self._steps(DEPTH, random.randint(1, 4)) if large else self._steps(1, random.randint(1, 2))
        cancelling = [self._performance({})] if random.random() < 0.4 else []
        if random.random() < 0.3 and self._place < len(_ORDER) - 1:
            steps.append(self._performance({"then": Place.ENDED.value}))
        return Program(steps=steps, at_cancel=cancelling, secret=secret)

    def _steps(self, depth: int, length: int, *, alone: bool = True) -> list[Any]:
        return [self._step(depth, alone) for _ in range(length)]

    def _step(self, depth: int, alone: bool) -> list[Any]:
        random = self._random
        choice = random.random()
        if choice < 0.6 or not depth:
            return self._performance(self._moves(alone))
        if choice < 0.75:
            most = depth  # a small program has two branches of one step
            branches = range(random.randint(2, 1 + most))
            steps = [self._steps(depth - 1, random.randint(1, most), alone=False) for _ in branches]
            return [random.choice(("gather", "group")), steps]
        if choice < 0.82:
            return ["until", random.randint(1, 120)]
        if choice < 0.87 and alone:
            return ["messages", random.randint(1, 2)]
        if choice < 0.92:
            return ["step"]
        if choice < 0.96 and alone and self._place < len(_ORDER) - 2:
            return ["enter", self._next_place()]
        return ["save"]

    def _performance(self, more: dict[str, Any]) -> list[Any]:
        random = self._random
        self._suffixes += 1
        if random.random() < 0.2 and "again" not in more:  # else it would expire without end
            more["expires"] = random.choice((3, 8, 20, 60))
        return ["perform", random.choice(self._names), f"p{self._suffixes}", more]

    def _moves(self, alone: bool) -> dict[str, Any]:
        random = self._random
        more: dict[str, Any] = {}
        if not alone or self._place >= len(_ORDER) - 3:
            return {}
        if random.random() < 0.4:
            more["entering"] = self._next_place()
        if random.random() < 0.2:
            more |= {"then": self._next_place(), "again": True}
        if random.random() < 0.3:
            more["again"] = True
        return more

    def _next_place(self) -> str:
        self._place += 1
        return _ORDER[self._place].value
