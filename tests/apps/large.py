"""Lifecycles whose receipts, results and snapshots are as large as their input asks for; and the same after a deploy of
code that keeps the large part elsewhere."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from datetime import timedelta
from enum import StrEnum
from functools import partial
from typing import Any

from pydantic import BaseModel
from temporalio import workflow

from perdure import App, AskFirst, Attempt, Effect, Escalate, Lifecycle, Lookup, Refused, Repeat, Step, state

CALLS: Counter[str] = Counter()
"""How often each key was called."""


class Stage(StrEnum):
    """Where it is."""

    NEW = "new"
    WORKING = "working"
    OVER = state("over", final=True)


class Wanted(BaseModel):
    """What is to be how large."""

    what: str
    size: int


class Scan(BaseModel):
    """The document itself."""

    number: int
    text: str


class ScanKey(BaseModel):
    """Its number: the document stands in a table."""

    number: int


class Pages(BaseModel):
    """What the lifecycle remembers."""

    text: str


class Kit:
    """Contracts and bodies with `kind` as receipts and results."""

    def __init__(self, kind: type[Any]) -> None:
        find = Lookup[Wanted, kind]("find-scan")  # type: ignore[valid-type]
        asked = AskFirst(find, visibility_delay=timedelta(seconds=0), every=timedelta(seconds=0.1))
        declared: dict[str, Any] = {
            "regular": Effect[Wanted, kind]("scan", timeout=timedelta(seconds=120), doubt=Repeat()),  # type: ignore[valid-type]
            "inline": Effect[Wanted, kind](  # type: ignore[valid-type]
                "scan-inline", timeout=timedelta(seconds=120), doubt=Repeat(), inline=True
            ),
            "look-up": Effect[Wanted, kind]("scan-asked", timeout=timedelta(seconds=5), doubt=asked),  # type: ignore[valid-type]
            "resolve": Effect[Wanted, kind](  # type: ignore[valid-type]
                "scan-parked", timeout=timedelta(seconds=5), doubt=Escalate()
            ),
        }
        self.effects: dict[str, Effect[Wanted, Any]] = declared
        self.step: Step[Wanted, Any] = Step[Wanted, kind]("read-scan", timeout=timedelta(seconds=5))  # type: ignore[valid-type]

        async def made(wanted: Wanted, _: Any) -> Any:
            return kind(number=7, text="x" * wanted.size)

        async def scan(wanted: Wanted, attempt: Attempt) -> Any:
            CALLS[attempt.key] += 1
            if wanted.what in ("look-up", "resolve"):
                raise TimeoutError
            if wanted.what == "unfit":
                return object()
            if wanted.what == "why":
                raise Refused("x" * wanted.size)
            return await made(wanted, attempt)

        self.bodies: list[Callable[..., Any]] = [
            *(effect.performs(partial(scan)) for effect in self.effects.values()),
            find.answers(partial(made)),
            self.step.takes(partial(made)),
        ]


LARGE, SMALLER = Kit(Scan), Kit(ScanKey)


class _Large(Lifecycle[Wanted, Stage]):
    """Lets something be large."""

    kit: Kit

    def __init__(self) -> None:
        self.text = ""

    async def work(self, wanted: Wanted) -> None:
        """Have it made."""
        kit = self.kit
        if wanted.what == "step":
            assert (await self.step(kit.step, wanted)).number == 7
        await self.enter(Stage.WORKING, "x" * wanted.size if wanted.what == "why" else None)
        if wanted.what in ("why", "unfit", *kit.effects):
            await self.perform(kit.effects.get(wanted.what, kit.effects["regular"]), wanted)
        await self.enter(Stage.OVER)


@workflow.defn(name="large", sandboxed=False)
class Large(_Large):
    """Keeps everything itself."""

    kit = LARGE
    effects = tuple(LARGE.effects.values())
    steps = (LARGE.step,)

    def snapshot(self) -> Pages:
        """What it remembers."""
        return Pages(text=self.text)

    @workflow.run
    async def run(self, wanted: Wanted) -> None:
        """Work."""
        if wanted.what == "snapshot":
            self.text = "x" * wanted.size
        await self.work(wanted)


@workflow.defn(name="large", sandboxed=False)
class Smaller(_Large):
    """Keeps the large part elsewhere."""

    kit = SMALLER
    effects = tuple(SMALLER.effects.values())
    steps = (SMALLER.step,)

    @workflow.run
    async def run(self, wanted: Wanted) -> None:
        """Work."""
        await self.work(wanted)


app = App([Large], LARGE.bodies)
smaller = App([Smaller], SMALLER.bodies)
"""After the deploy."""
