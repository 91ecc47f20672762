"""Random lifecycles: one class that interprets a program, and contracts of every policy and way.

A program is a list of steps, each a list that begins with its word:

    ["perform", effect, suffix, {"entering": state, "then": state, "expires": seconds, "again": bool}]
    ["gather", [program, ...]]     ["group", [program, ...]]     ["until", seconds]     ["messages", how many, until]
    ["race", [program, ...]]     ["within", seconds, program]     ["step"]     ["enter", state]     ["save"]
    ["renew"]     ["retry"]

`perform` has as well: `until` = it is performed until it is done, and waits in `HELD` for each retry; `own` = terms of
its own, one of `OWN`; `confirmed` = a message may confirm it; `varies` = a newer build gives it another input. `race`
and `within` cancel what they leave. Times are counted from the start of the entity, so that a run that starts from its
top finds the same ones.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from enum import StrEnum
from functools import cache
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
OWN = ("repeat", "escalate", "window", "ask", "short", "long", "long", "once")
"""Terms of a performance in place of the contract's; `window` is for effects whose repeats the other side drops, `ask`
for those that have a look-up."""


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


class Kept(BaseModel):
    """The snapshot.

    Attributes:
        received: texts of messages.
        updated: texts of updates.
        renewed: how many words `renew` are done.
    """

    received: list[str] = Field(default_factory=list)
    updated: list[str] = Field(default_factory=list)
    renewed: int = 0


class Place(StrEnum):
    """States, in their order; each leads to the next one, and to both ends. A person may be needed between any two."""

    S0 = state("s0", leads_to=("s1", "held", "ended"))
    S1 = state("s1", leads_to=("s2", "held", "ended"))
    S2 = state("s2", leads_to=("s3", "held", "ended"))
    S3 = state("s3", leads_to=("s4", "held", "ended"))
    S4 = state("s4", leads_to=("s5", "held", "ended"))
    S5 = state("s5", leads_to=("held", "ended"))
    HELD = state("held", attention=True)
    ENDED = state("ended", final=True)
    CANCELLED = state("cancelled", cancelled=True)


ORDER = (Place.S0, Place.S1, Place.S2, Place.S3, Place.S4, Place.S5, Place.ENDED)


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


def _own(effect: Effect[str, str], how: str, pace: float) -> dict[str, Any]:
    """The arguments of `perform` for terms of its own."""

    def s(seconds: float) -> timedelta:
        return timedelta(seconds=seconds * pace)

    match how:
        case "repeat":
            return {"doubt": Repeat()}
        case "escalate":
            return {"doubt": Escalate()}
        case "window":
            return {"doubt": Dedupe(s(30), s(5), Repeat())}
        case "ask":
            assert effect.lookup is not None
            return {"doubt": AskFirst(effect.lookup, visibility_delay=s(4), misses=2, tries=1, otherwise=Repeat())}
        case "short":
            return {"timeout": s(2)}
        case "long":  # a worker that is frozen, or whose task is lost, may still begin its attempt in time
            return {"timeout": s(30)}
        case _:
            return {"retry": RetryPolicy(initial_interval=s(1), maximum_attempts=1)}


async def _perform(lifecycle: Interpreter, arguments: Sequence[Any], secret: str) -> None:
    name, suffix, more = arguments
    effect = next(each for each in lifecycle.effects if each.name == name)
    at = lifecycle.after(more["expires"]) if "expires" in more else None
    entering, then = (Place(more[each]) if each in more else None for each in ("entering", "then"))
    given = f"{name} {suffix} {secret}" + (f" of build {lifecycle.build}" if more.get("varies") else "")
    own = _own(effect, more["own"], lifecycle.pace) if "own" in more else {}
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
            if not (ended or ORDER.index(entering) <= _place(lifecycle)):
                raise RuntimeError(f"{name} is done, and the state that it was to enter is not entered")
            return
        if not more.get("again"):
            return
        await lifecycle.retry_requested()


async def _come_before(lifecycle: Any, place: Place | None) -> None:
    """Enter the states that were left out on the way to `place`, since what was to enter them was never begun."""
    while place is not None and place is not Place.ENDED and _place(lifecycle) < ORDER.index(place) - 1:
        await lifecycle.enter(ORDER[_place(lifecycle) + 1])


def _place(lifecycle: Any) -> int:
    """How far a lifecycle is in the order of its states. From `HELD` it can go anywhere."""
    return len(ORDER) if lifecycle.state is Place.HELD else ORDER.index(lifecycle.state)


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
        self._renewed = self._renewals = 0
        self._given = Program(steps=[])

    async def _interpret(self, given: Program) -> None:
        kept = self.restore(Kept)
        if kept is not None:
            self.received, self.updated = kept.received + self.received, kept.updated + self.updated
            self._renewed = kept.renewed
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
        return Kept(received=self.received, updated=self.updated, renewed=self._renewed)

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
            case _:
                raise ValueError(f"{word!r} is no word of a program")

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

    build: ClassVar[int] = 1
    effects: ClassVar[tuple[Effect[Any, Any], ...]] = tuple(contracts(1).values())
    steps: ClassVar[tuple[Step[Any, Any], ...]] = (COUNT,)

    @workflow.run
    async def run(self, given: Program) -> None:
        await self._interpret(given)


LIFECYCLES: dict[int, type[Lifecycle[Program, Place]]] = {0: Explored, 1: ExploredLater}
