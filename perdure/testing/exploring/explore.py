"""`explore`: plays random scenarios until one shows what must not happen, and makes that one small."""

from __future__ import annotations

import itertools
import logging
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from random import Random
from typing import Any

from perdure.app import App, contracts_of, name_of
from perdure.contracts.effects import Effect, Find
from perdure.contracts.keys import Entity
from perdure.contracts.steps import Step
from perdure.testing.exploring import programs
from perdure.testing.exploring.other_side import SECRET
from perdure.testing.exploring.scenario import Finding, Scenario
from perdure.testing.exploring.scenarios import scenario, shrink
from perdure.testing.exploring.scripts import script_of
from perdure.testing.exploring.subject import Subject, bodies_of
from perdure.testing.exploring.world import World
from perdure.testing.script import ScriptError
from perdure.workflow.lifecycle import Lifecycle

Contract = Effect[Any, Any] | Find[Any, Any] | Step[Any, Any]
RUNS = 200


class ExplorationFailed(AssertionError):
    """A scenario showed what must not happen; the message is its script.

    Attributes:
        scenario: the smallest one that was found.
        finding: what it shows.
    """

    def __init__(self, subject: str, scenario: Scenario, finding: Finding, original: int) -> None:
        super().__init__(f"{finding}\n\n{script_of(scenario)}\n\n{subject} shows it with seed={original}, runs=1")
        self.scenario, self.finding = scenario, finding


@dataclass
class Exploration:
    """What was played.

    Attributes:
        runs: how many scenarios.
        cpu_seconds: how long the processor worked for them.
        covered: how often each (place, event) was seen.
    """

    runs: int = 0
    cpu_seconds: float = 0.0
    covered: Counter[tuple[str, str]] = field(default_factory=Counter)

    def __str__(self) -> str:
        rate = self.runs / self.cpu_seconds if self.cpu_seconds else 0.0
        return f"{self.runs} runs, {rate:.0f} per CPU second, {len(self.covered)} pairs of place and event"


def explore(
    lifecycle: type[Lifecycle[Any, Any]] | None = None,
    given: Any = None,
    *,
    other_side: Mapping[Any, Any] | None = None,
    messages: Sequence[tuple[str, Any]] = (),
    seed: int = 0,
    runs: int = RUNS,
    seconds: float | None = None,
) -> Exploration:
    """Play random scenarios of a lifecycle, each from its start to where nothing can happen any more.

    In each of them calls are refused, lost and late, workers are killed, frozen and replaced, the database and Temporal
    go away, people cancel, resolve and retry, and runs continue as new. No server is needed, and no time passes.

    Args:
        lifecycle: the class; without one, random lifecycles are explored.
        given: its input, or a function that makes one from a `random.Random`.
        other_side: for each effect and step (its contract is the key): the receipt, or a function that makes it from
            the input. A look-up finds the receipt of the effect whose policy asks it.
        messages: signals that arrive at random moments: name and payload.
        seed: the first scenario's; the others follow it.
        runs: how many scenarios.
        seconds: how long to go on, instead of `runs`.

    Returns:
        What was played.

    Raises:
        ExplorationFailed: an effect was done twice although its policy excludes that, a doubt or an attempt was
            forgotten, record and other side differ, something stands still unseen, a workflow task fails, or a
            replay differs.
        ScriptError: a receipt is missing, or does not fit its contract.
    """
    random_lifecycles = lifecycle is None
    subject = generated() if lifecycle is None else _authored(lifecycle, other_side or {}, messages)
    contracts = contracts_of(subject.builds[0].lifecycles[subject.lifecycle])
    done = Exploration()
    until = None if seconds is None else time.monotonic() + seconds
    began = time.process_time()
    with _quiet():
        for number in itertools.count(seed) if until else range(seed, seed + runs):
            if until is not None and time.monotonic() > until:
                break
            random = Random(number)
            value = programs.Author(random).program(SECRET) if random_lifecycles else _input(given, random)
            one = scenario(number, value, contracts)
            done.runs += 1
            if findings := play(subject, one, done.covered):
                smallest = smallest_like(subject, one, findings[0].kind)
                call = "explore()" if lifecycle is None else f"explore({lifecycle.__name__}, ...)"
                raise ExplorationFailed(call, smallest, play(subject, smallest)[0], number)
    done.cpu_seconds = time.process_time() - began
    return done


def play(subject: Subject, one: Scenario, covered: Counter[tuple[str, str]] | None = None) -> list[Finding]:
    """What one scenario shows."""
    world = World(subject, one, Counter() if covered is None else covered)
    return world.play(Entity(subject.lifecycle, "1"))


def smallest_like(subject: Subject, failed: Scenario, kind: str) -> Scenario:
    """The smallest scenario that was found to show the same kind of thing."""
    return shrink(failed, lambda other: [each.kind for each in play(subject, other)[:1]] == [kind])


def _input(given: Any, random: Random) -> Any:
    return given(random) if callable(given) else given


def generated() -> Subject:
    """Random lifecycles, in an older and a newer build."""
    builds = {number: App([each], bodies_of(each)) for number, each in programs.LIFECYCLES.items()}
    names = [each.name for each in contracts_of(programs.LIFECYCLES[0])]
    return Subject(programs.NAME, builds, dict.fromkeys(names, _receipt), (("note", None),), SECRET)


def _receipt(given: Any) -> str:
    return f"receipt of {given}"


def _authored(
    lifecycle: type[Lifecycle[Any, Any]], other_side: Mapping[Any, Any], messages: Sequence[tuple[str, Any]]
) -> Subject:
    app = App([lifecycle], bodies_of(lifecycle))
    receipts: dict[str, Callable[[Any], Any]] = {}
    for contract in contracts_of(lifecycle):
        if contract in other_side:
            receipts[contract.name] = _makes(contract, other_side[contract])
        elif not isinstance(contract, Find):
            raise ScriptError(f"other_side has no receipt for {contract!r}: give one, or a function of its input")
    return Subject(name_of(lifecycle), {0: app, 1: app}, receipts, tuple(messages))


def _makes(contract: Contract, receipt: Any) -> Callable[[Any], Any]:
    if callable(receipt):
        made: Callable[[Any], Any] = receipt
        return made
    try:
        contract.receipt.validate_python(receipt)
    except ValueError as error:
        raise ScriptError(f"other_side: {receipt!r} is no receipt of {contract!r}: {error}") from None
    return lambda given: receipt


@contextmanager
def _quiet() -> Iterator[None]:
    """Thousands of workers are killed here: what they log helps nobody."""
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        yield
    finally:
        logging.disable(before)
