"""Random scenarios, and how one that failed is made smaller until it can be read."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from random import Random
from typing import Any

from perdure.contracts.effects import Effect, Lookup
from perdure.contracts.steps import Step
from perdure.testing.exploring.authoring import Author
from perdure.testing.exploring.other_side import CALLS, LOOKS
from perdure.testing.exploring.programs import BRANCHES, INSIDE, Program
from perdure.testing.exploring.scenario import RENEWS, Event, Fault, Scenario

PLACES = ("before the commit", "after the commit")
FAULTS = ("kill", "freeze", "stall", "cut off", "stop", "away", "lose replies", "lock")
RESTORES = ("restore", "lose commits")
EVENTS = (
    *("cancel", "cancel", "cancel through Temporal", "retry", "send again", "message", "message", "again", "mirror"),
    *("confirm", "update", "deploy"),
    *("evict", "terminate", "lose Temporal", *RESTORES, "start worker", "worker's clock", "Temporal's clock", *FAULTS),
)
AT_RENEWAL = ("message", "message", "confirm", "update", "retry", "cancel", "cancel through Temporal", "kill", "stop")
_STEPS = ("done", "fails", "killed before")


def scenario(
    seed: int, given: Any, contracts: Sequence[Effect[Any, Any] | Lookup[Any, Any] | Step[Any, Any]]
) -> Scenario:
    """The scenario of a seed, for a lifecycle with these contracts and this input."""
    one = without_help(seed, given, contracts)
    if isinstance(given, Program) and given.has_bug:  # a run that has passed the bug cannot go back to the older build
        one = replace(one, builds=tuple(0 for _ in one.builds))
    return replace(one, events=with_help((given,), one.builds, one.events))


def without_help(
    seed: int, given: Any, contracts: Sequence[Effect[Any, Any] | Lookup[Any, Any] | Step[Any, Any]]
) -> Scenario:
    """The scenario of a seed, without what operators do in any case."""
    random = Random(f"scenario {seed}")
    calls = {each.identity: script for each in contracts if (script := _script(random, each))}
    hostile = random.random()
    faults = tuple(_fault(random) for _ in range(_few(random, 0.75 * hostile)))
    events = _possible(_events(random, _few(random, 0.9 * hostile)))
    if isinstance(given, Program):
        called = [what for what, handler in (("message", given.at_message), ("update", given.at_update)) if handler]
        calls_of_handlers = [replace(_event(random), what=each) for each in called for _ in range(random.randint(1, 3))]
        events = _in_order([*events, *calls_of_handlers])
    one = Scenario(
        seed=seed,
        given=given,
        calls=calls,
        faults=faults,
        events=events,
        builds=random.choice(((0,), (0, 0), (0, 1), (1, 0))),
        renews=random.choice((0, 0, 1, 2, 3, 6)),
        single_batch=random.random() < 0.3,
        restarts=int(random.random() < 0.1),
    )
    if isinstance(given, Program) and random.random() < 0.4:
        one = _crowded(random, one, given)
    return replace(one, indexed=random.random() < 0.5)


def _crowded(random: Random, one: Scenario, program: Program) -> Scenario:
    """The same with few steps, and with faults and events that all come within seconds: it is the short programs whose
    workflow tasks meet in every order."""
    count = random.choice((1, 1, 2, 2, 3))
    first = random.randrange(max(1, len(program.steps) - count + 1))
    kept = {"steps": program.steps[first : first + count]}
    kept |= {name: [] for name in ("at_message", "at_update", "at_cancel") if random.random() < 0.6}
    if random.random() < 0.5:
        author = Author(random, 1.0)
        kept[random.choice(("at_message", "at_update"))] = author.handler([author.held()])
    given = program.model_copy(update=kept)
    faults = [_fault(random) for _ in range(random.randint(1, 4))]
    early = tuple(replace(each, number=random.randint(1, each.number)) for each in faults)
    events, at = list[Event](), 0.0
    for _ in range(random.randint(2, 6)):
        at += random.choice((0.01, 0.05, 0.3, 1.0, 3.0, 6.0)) * random.uniform(0.7, 1.3)
        events.append(replace(_event(random), at=round(at, 3)))
    for what, handler in (("message", given.at_message), ("update", given.at_update)):
        for _ in range(random.randint(1, 2) if handler else 0):
            events.append(Event(round(random.uniform(0, random.choice((0.1, 1.0, 10.0))), 3), what))
    return replace(one, given=given, faults=early, events=_possible(_in_order(events)))


def _script(random: Random, contract: Effect[Any, Any] | Lookup[Any, Any] | Step[Any, Any]) -> list[str]:
    words = CALLS if isinstance(contract, Effect) else LOOKS if isinstance(contract, Lookup) else _STEPS
    if random.random() < 0.45:
        return []
    return [random.choice(words) for _ in range(random.randint(1, 4))]


def _few(random: Random, likely: float) -> int:
    count = 0
    while random.random() < likely and count < 6:
        count += 1
    return count


def _seconds(random: Random) -> float:
    return random.choice((0.5, 2.0, 6.0, 12.0, 18.0, 35.0, 90.0))


def _fault(random: Random) -> Fault:
    if random.random() < 0.2:
        return Fault(RENEWS, random.randint(1, 3), random.choice(AT_RENEWAL), _seconds(random))
    return Fault(random.choice(PLACES), random.randint(1, 14), random.choice(FAULTS), _seconds(random))


def _events(random: Random, count: int) -> tuple[Event, ...]:
    """Some of them come soon after another one has begun, or is over: what breaks is most often what is half done."""
    events: list[Event] = []
    for _ in range(count):
        event = _event(random)
        if events and random.random() < 0.4:
            other = random.choice(events)
            pause = random.choice((0.02, 0.1, 0.5, 2.0, 5.0)) * random.uniform(0.8, 1.2)
            event = replace(event, at=round(other.at + random.choice((0.0, other.seconds)) + pause, 3))
        events.append(event)
    return _in_order(events)


def _in_order(events: Sequence[Event]) -> tuple[Event, ...]:
    return tuple(sorted(events, key=lambda each: each.at))


def _event(random: Random) -> Event:
    at = random.choice((0.0, 0.05, 0.5, 1.0, 3.0, 6.0, 10.0, 20.0, 45.0, 100.0)) * random.uniform(0.8, 1.2)
    return Event(round(at, 3), random.choice(EVENTS), _seconds(random))


def _possible(events: tuple[Event, ...]) -> tuple[Event, ...]:
    """What the database can make good: an order that is later than a restore, by a clock of Temporal's that is ahead by
    minutes, it takes for one that came after it."""
    restored = any(each.what in RESTORES for each in events)
    return tuple(each for each in events if not restored or each.what != "Temporal's clock")


def with_help(inputs: Sequence[Any], builds: tuple[int, ...], events: tuple[Event, ...]) -> tuple[Event, ...]:
    """The events, with what operators do in any case: what stands still with the older build gets the newer one, and a
    rollout ends, since no worker of the older build knows the new name of an effect that it has taken."""
    if any(isinstance(each, Program) and each.needs_newer_build for each in inputs):
        return (*events, Event(120.0, "deploy"))
    return (*events, Event(600.0, "deploy")) if len(set(builds)) > 1 else events


def shrink(
    failed: Scenario,
    fails: Callable[[Scenario], bool],
    *,
    most: int = 400,
    smaller: Callable[[Scenario], Iterator[Scenario]] | None = None,
) -> Scenario:
    """The smallest scenario that still fails, among those that are tried.

    Args:
        failed: a scenario that fails.
        fails: plays one, and returns whether it fails in the same way.
        most: how many are tried.
        smaller: scenarios that are a little smaller than one; None = `smaller_scenarios`.
    """
    smallest, left = failed, most
    going = True
    while going:
        going = False
        for each in (smaller or smaller_scenarios)(smallest):
            left -= 1
            if left < 0:
                return smallest
            if fails(each):
                smallest, going = each, True
                break
    return smallest


def smaller_scenarios(one: Scenario) -> Iterator[Scenario]:
    """Scenarios that are a little smaller."""
    for each in range(len(one.events)):
        yield replace(one, events=one.events[:each] + one.events[each + 1 :])
    for each in range(len(one.faults)):
        yield replace(one, faults=one.faults[:each] + one.faults[each + 1 :])
    for name, script in one.calls.items():
        yield replace(one, calls={key: value for key, value in one.calls.items() if key != name})
        for each in range(len(script)):
            yield replace(one, calls={**one.calls, name: script[:each] + script[each + 1 :]})
    plainer = [replace(one, restarts=0), replace(one, renews=0), replace(one, builds=(0,))]
    plainer += [replace(one, single_batch=False), replace(one, indexed=False)]
    yield from (each for each in plainer if each != one)
    if hasattr(one.given, "steps"):
        for name in ("steps", "at_cancel", "at_message", "at_update"):
            for steps in smaller_steps(getattr(one.given, name)):
                yield replace(one, given=one.given.model_copy(update={name: steps}))


def smaller_steps(steps: list[Any]) -> Iterator[list[Any]]:
    """Programs that are a little smaller."""
    for each, step in enumerate(steps):
        before, after = steps[:each], steps[each + 1 :]
        yield before + after
        if step[0] in INSIDE:
            yield [*before, *step[-1], *after]
            for smaller in smaller_steps(step[-1]):
                yield [*before, [*step[:-1], smaller], *after]
        elif step[0] == "start":
            for smaller in smaller_steps(step[3]["steps"]):
                yield [*before, [*step[:3], {**step[3], "steps": smaller}], *after]
        elif step[0] == "rounds":
            word, times, more, inside = step
            if times > 1:
                yield [*before, [word, times - 1, more, inside], *after]
            if more:
                yield [*before, [word, times, {}, inside], *after]
            for smaller in smaller_steps(inside):
                yield [*before, [word, times, more, smaller], *after]
        elif step[0] in BRANCHES:
            branches = step[1]
            for number, branch in enumerate(branches):
                yield [*before, *branch, *after]
                yield [*before, [step[0], branches[:number] + branches[number + 1 :]], *after]
                for smaller in smaller_steps(branch):
                    yield [*before, [step[0], [*branches[:number], smaller, *branches[number + 1 :]]], *after]
        elif step[0] == "perform":
            word, effect, suffix, more = step
            for key in more:
                yield [*before, [word, effect, suffix, {k: v for k, v in more.items() if k != key}], *after]
