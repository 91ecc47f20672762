"""Random scenarios for PostgreSQL and real relays: entities of two lifecycles, in an older and a newer build."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import Any, ClassVar

from temporalio import workflow

from perdure._workflow.lifecycle import Lifecycle
from perdure.app import App, contracts_of
from perdure.contracts.effects import Effect
from perdure.contracts.steps import Step
from perdure.testing.exploring import programs
from perdure.testing.exploring.authoring import RARE, Author
from perdure.testing.exploring.contracts import COUNT, contracts
from perdure.testing.exploring.other_side import SECRET
from perdure.testing.exploring.programs import NAME, Place, Program
from perdure.testing.exploring.scenario import Fault, Scenario
from perdure.testing.exploring.scenarios import scenario, smaller_scenarios, smaller_steps
from perdure.testing.exploring.sql_acts import OUTSIDE, PLACES, STARTS, VERBS, WAYS, Act
from perdure.testing.exploring.subject import Subject, bodies_of

SECOND = "second"
"""Only the newer build has it."""


@workflow.defn(name=NAME)
class Newer(programs.Interpreter, Lifecycle[Program, Place]):
    """The interpreter, of a build that takes one signal more."""

    build: ClassVar[int] = 1
    effects: ClassVar[tuple[Effect[Any, Any], ...]] = tuple(contracts(1).values())
    steps: ClassVar[tuple[Step[Any, Any], ...]] = (COUNT,)

    @workflow.run
    async def run(self, given: Program) -> None:
        await self._interpret(given)

    @workflow.signal
    def remark(self, text: str) -> None:
        self.received.append(text)


@workflow.defn(name=SECOND)
class Second(programs.Interpreter, Lifecycle[Program, Place]):
    """The interpreter under another name."""

    effects: ClassVar[tuple[Effect[Any, Any], ...]] = tuple(contracts(1).values())
    steps: ClassVar[tuple[Step[Any, Any], ...]] = (COUNT,)

    @workflow.run
    async def run(self, given: Program) -> None:
        await self._interpret(given)


@dataclass(frozen=True)
class SqlScenario(Scenario):
    """All that makes a run.

    Attributes:
        entities: lifecycle and program of each.
        acts: what is committed, and what happens to relays and to Temporal.
        relays: builds of the relays that run from the start.
        relay_faults: where one of them crashes; `PLACES`.
    """

    entities: tuple[tuple[str, Program], ...] = ()
    acts: tuple[Act, ...] = ()
    relays: tuple[int, ...] = (1,)
    relay_faults: tuple[Fault, ...] = ()


def subject() -> Subject:
    """An older build, and a newer one with one lifecycle and one signal more."""
    builds = {
        0: App([programs.Explored], bodies_of(programs.Explored)),
        1: App([Newer, Second], bodies_of(Newer)),
    }
    receipts = {each.identity: lambda given: f"receipt of {given}" for each in contracts_of(Newer)}
    return Subject(NAME, builds, receipts, messages=(("note", None),), secret=SECRET)


def sql_scenario(seed: int) -> SqlScenario:
    """The scenario of a seed."""
    random = Random(f"sql {seed}")
    base = scenario(seed, None, contracts_of(Newer))
    entities = tuple(
        (random.choice((NAME, NAME, SECOND)), Author(random, RARE).program(SECRET))
        for _ in range(random.choice((1, 2, 2, 3, 4)))
    )
    starts = [
        Act(_at(random, 3), "start", number, random.choice(STARTS), _seconds(random)) for number in range(len(entities))
    ]
    acts = starts + [_act(random, len(entities)) for _ in range(random.randint(0, 8))]
    acts.sort(key=lambda each: each.at)
    newer = any(each.what == "remark" for each in acts)
    return SqlScenario(
        seed=seed,
        given=None,
        calls=base.calls,
        faults=base.faults,
        events=tuple(each for each in base.events if each.what != "restore"),
        renews=base.renews,
        single_batch=base.single_batch,
        builds=random.choice(((1,), (1, 1)) if newer else ((1,), (1, 1), (0, 1), (1, 0))),
        entities=entities,
        acts=tuple(acts),
        relays=random.choice(((1,), (1,), (1, 1), (0, 1), (1, 0), (0, 0, 1), (0,))),
        relay_faults=tuple(
            Fault(random.choice(PLACES), random.randint(1, 4), "kill") for _ in range(random.choice((0, 0, 1, 2)))
        ),
    )


def _act(random: Random, entities: int) -> Act:
    if random.random() < 0.25:
        return Act(_at(random, 60), random.choice(OUTSIDE), random.randrange(2), "", _seconds(random))
    how = random.choice(WAYS)
    return Act(_at(random, 60), random.choice(VERBS), random.randrange(entities), how, _seconds(random))


def _at(random: Random, longest: float) -> float:
    return round(random.choice((0.0, 0.05, random.uniform(0, 2), random.uniform(0, longest))), 3)


def _seconds(random: Random) -> float:
    return random.choice((0.05, 0.5, 2.0, 6.0, 20.0, 60.0))


def smaller(one: Scenario) -> Iterator[Scenario]:
    """Scenarios that are a little smaller."""
    assert isinstance(one, SqlScenario)
    for name in ("acts", "relay_faults"):
        for each in range(len(having := getattr(one, name))):
            yield replace(one, **{name: having[:each] + having[each + 1 :]})
    for relays in ((1,), (0, 1), (0,)):
        if len(relays) < len(one.relays) or (relays == (1,) and one.relays != relays):
            yield replace(one, relays=relays)
    for each, act in enumerate(one.acts):
        if act.how:
            yield replace(one, acts=(*one.acts[:each], replace(act, how=""), *one.acts[each + 1 :]))
    yield from smaller_scenarios(one)
    for number, (lifecycle, program) in enumerate(one.entities):
        for name in ("steps", "at_cancel", "at_message"):
            for steps in smaller_steps(getattr(program, name)):
                made = lifecycle, program.model_copy(update={name: steps})
                yield replace(one, entities=(*one.entities[:number], made, *one.entities[number + 1 :]))


def lines_of(one: SqlScenario) -> Sequence[str]:
    """What a script has beside that of every scenario."""
    lines: list[object] = [
        f"{number}: {name} {program.steps} {program.at_cancel} {program.at_message}"
        for number, (name, program) in enumerate(one.entities)
    ]
    lines += [f"relays: {one.relays}", *one.relay_faults, *one.acts]
    return [str(each) for each in lines]
