"""Random scenarios for PostgreSQL and real relays: entities of two lifecycles, in an older and a newer build."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from random import Random

from perdure.testing.exploring.authoring import RARE, Author
from perdure.testing.exploring.other_side import SECRET
from perdure.testing.exploring.programs import NAME, SECOND, Program
from perdure.testing.exploring.random_lifecycles import CONTRACTS
from perdure.testing.exploring.scenario import Fault, Scenario
from perdure.testing.exploring.scenarios import RESTORES, smaller_scenarios, smaller_steps, with_help, without_help
from perdure.testing.exploring.sql_acts import OUTSIDE, PLACES, STARTS, VERBS, WAYS, Act


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


def sql_scenario(seed: int) -> SqlScenario:
    """The scenario of a seed."""
    random = Random(f"sql {seed}")
    base = without_help(seed, None, CONTRACTS)
    entities = tuple(
        (random.choice((NAME, NAME, SECOND)), Author(random, RARE, starts=True).program(SECRET))
        for _ in range(random.choice((1, 2, 2, 3, 4)))
    )
    starts = [
        Act(_at(random, 3), "start", number, random.choice(STARTS), _seconds(random)) for number in range(len(entities))
    ]
    acts = starts + [_act(random, len(entities)) for _ in range(random.randint(0, 8))]
    acts.sort(key=lambda each: each.at)
    newer = any(each.what == "remark" for each in acts)
    builds = random.choice(((1,), (1, 1)) if newer else ((1,), (1, 1), (0, 1), (1, 0)))
    events = tuple(each for each in base.events if each.what not in RESTORES)
    return SqlScenario(
        seed=seed,
        given=None,
        calls=base.calls,
        faults=base.faults,
        events=with_help([program for _, program in entities], builds, events),
        renews=base.renews,
        single_batch=base.single_batch,
        builds=builds,
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
