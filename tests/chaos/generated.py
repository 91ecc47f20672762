"""Random lifecycles, as the exploration writes them, on real servers, in an older and in a newer build."""

from __future__ import annotations

import random
import re
from collections.abc import Iterable, Iterator
from functools import cache
from typing import Any, ClassVar

from temporalio import workflow

from perdure._workflow.lifecycle import Lifecycle
from perdure.contracts.app_column import AppColumn
from perdure.contracts.effects import Effect
from perdure.contracts.keys import Key
from perdure.contracts.policies import DoubtPolicy
from perdure.contracts.steps import Step
from perdure.testing.exploring.authoring import RARE, Author
from perdure.testing.exploring.contracts import COUNT, contracts, own_terms
from perdure.testing.exploring.interpreter import Interpreter
from perdure.testing.exploring.other_side import SECRET
from perdure.testing.exploring.programs import FOUND, TELL, Place, Program, starter_of
from tests.chaos.plan import GENERATED, RANDOM, STARTED

PACE = 0.2
"""How many seconds it takes here what takes one in virtual time: a call may take a second."""
SETTLE = 4 * PACE
"""Seconds: the `visibility_delay` of its look-ups."""
WINDOW = 60 * PACE
"""Seconds for which the other side drops repeats, where an effect declares that it does."""


class _Random(Interpreter):
    """The interpreter, of an older build; see `Interpreter` for its attributes."""

    pace = PACE
    effects: ClassVar[tuple[Effect[Any, Any], ...]] = tuple(contracts(0, PACE).values())
    steps: ClassVar[tuple[Step[Any, Any], ...]] = (COUNT, FOUND, TELL)
    mirror = AppColumn("booking", "state")


class _RandomLater(_Random):
    """The interpreter, of a newer build: its effects have other terms, and other names."""

    build: ClassVar[int] = 1
    effects: ClassVar[tuple[Effect[Any, Any], ...]] = tuple(contracts(1, PACE).values())


@workflow.defn(name=GENERATED)
class Generated(_Random, Lifecycle[Program, Place]):
    """Those that the application starts, in an older build."""

    @workflow.run
    async def run(self, given: Program) -> None:
        """See the base class."""
        await self._interpret(given)


@workflow.defn(name=GENERATED)
class GeneratedLater(_RandomLater, Lifecycle[Program, Place]):
    """Those that the application starts, in a newer build."""

    @workflow.run
    async def run(self, given: Program) -> None:
        """See the base class."""
        await self._interpret(given)


@workflow.defn(name=STARTED)
class Started(_Random, Lifecycle[Program, Place]):
    """Those that others start, in an older build."""

    @workflow.run
    async def run(self, given: Program) -> None:
        """See the base class."""
        await self._interpret(given)


@workflow.defn(name=STARTED)
class StartedLater(_RandomLater, Lifecycle[Program, Place]):
    """Those that others start, in a newer build."""

    @workflow.run
    async def run(self, given: Program) -> None:
        """See the base class."""
        await self._interpret(given)


def lifecycle_of(entity_id: str) -> str:
    """The lifecycle of a random entity: each starts those of the other one."""
    return RANDOM[entity_id.count("-of-") % 2]


def is_started(entity_id: str) -> bool:
    """Whether another entity has started it."""
    return "-of-" in entity_id


@cache
def program(seed: int, entity_id: str) -> Program:
    """What an entity does: a pure function of the seed of the plan, and for one that another starts, of its program."""
    if is_started(entity_id):
        return starts(program(seed, starter_of(entity_id)).steps, starter_of(entity_id))[entity_id]
    return Author(random.Random(f"program {seed} {entity_id}"), RARE, starts=True).program(SECRET)


def starts(steps: Iterable[Any], entity_id: str) -> dict[str, Program]:
    """The programs of the entities that these steps of a program start, by their ids."""
    return {f"{each[2]}-of-{entity_id}": Program(**each[3]) for each in words(steps) if each[0] == "start"}


def started_for_sure(seed: int, entity_id: str) -> set[str]:
    """The entities that one has started if it has come to its end: what it leaves, it may not have started."""
    given = program(seed, entity_id)
    return {*starts([each for each in given.steps if each[0] == "start"], entity_id)}


def policy_of(seed: int, key: str) -> DoubtPolicy[Any, Any]:
    """The doubt policy of a performance: that of its contract, or one of its own."""
    name, suffix, _ = Key(key).performance
    given, effect = program(seed, Key(key).split("/")[1]), contracts(0, PACE)[name]
    written = re.split("[.-]", suffix or "")[0]  # in a round, and at a message, more is added to it
    for each in words([*given.steps, *given.at_cancel, *given.at_message, *given.at_update]):
        if each[:3] == ["perform", name, written]:
            own = own_terms(effect, each[3]["own"], PACE) if "own" in each[3] else {}
            policy: DoubtPolicy[Any, Any] = own.get("doubt", effect.doubt)
            return policy
    raise LookupError(f"no program performs {key}")


def words(steps: Iterable[Any]) -> Iterator[list[Any]]:
    """The steps with a word of their own, and those inside of them; not those of another entity."""
    for each in steps:
        if isinstance(each, list):
            if each and isinstance(each[0], str):
                yield each
            yield from words(each)
