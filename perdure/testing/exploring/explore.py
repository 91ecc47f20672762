"""`explore`: plays random scenarios until one shows what must not happen, and makes that one small."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from perdure._workflow.lifecycle import Lifecycle
from perdure.contracts.effects import Effect
from perdure.testing.exploring.authors import of_lifecycle
from perdure.testing.exploring.explorer import of_random_lifecycles
from perdure.testing.exploring.programs import Program
from perdure.testing.exploring.scenario import Finding, Scenario
from perdure.testing.exploring.scenario_end import ScenarioEnd
from perdure.testing.exploring.scripts import advice_on, script_of
from perdure.testing.script import ScriptError

RUNS = 200


class ExplorationFailed(AssertionError):
    """A scenario showed what must not happen; the message is its script.

    Attributes:
        finding: what it shows.
        scenario: the smallest one that was found to show it.
    """

    def __init__(self, finding: Finding, scenario: Scenario, seed: int) -> None:
        advice = "" if isinstance(scenario.given, Program) else advice_on(finding, scenario)
        super().__init__(f"{finding}\n{advice}\n{script_of(scenario)}\n\nseed={seed}, runs=1 shows it again")
        self.finding: Finding = finding
        self.scenario: Scenario = scenario


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
    once: Sequence[Effect[Any, Any]] = (),
    check: Callable[[ScenarioEnd], None] | None = None,
    seed: int = 0,
    runs: int = RUNS,
) -> Exploration:
    """Play random scenarios of a lifecycle, each from its start to where nothing can happen any more.

    In each of them calls are refused, lost and late, workers are killed, frozen and replaced, the database and Temporal
    go away, people cancel, resolve and retry, and runs continue as new. No server is needed, and no time passes.

    Args:
        lifecycle: the class; without one, random lifecycles are explored.
        given: its input, or a function that makes one from a `random.Random`.
        other_side: for each effect and step (its contract is the key): the receipt, or a function that makes it from
            the input. A look-up finds the receipt of the effect whose policy has it.
        messages: signals that arrive at random moments, in this order: name, and payload, None, or a function that
            makes the payload from the message's number. After the last one the first follows: at least four are sent,
            and as many as the lifecycle needs without a disturbance.
        once: effects that may happen once at most for an entity, under whatever key.
        check: a rule of your own: a function that asserts what must hold at the end of each scenario.
        seed: the first scenario's; the others follow it.
        runs: how many scenarios.

    Returns:
        What was played.

    Raises:
        ExplorationFailed: an effect was done twice although its policy excludes that, a doubt or an attempt was
            forgotten, record and other side differ, something stands still unseen, a workflow task fails, or a
            replay differs.
        ScriptError: an argument does not fit the lifecycle; the message names it.
        RunawayWorkflow: workflow code ran for ten seconds of processor time without waiting. The message has the place.
        RuntimeError: it is called where an event loop runs; a test that calls it is an ordinary function.
    """
    if asyncio._get_running_loop() is not None:
        raise RuntimeError("explore() runs an event loop of its own: call it from a test that is no coroutine")
    if runs < 1:
        raise ScriptError(f"runs={runs} plays nothing: give 1 at least")
    if lifecycle is not None:
        explorer = of_lifecycle(lifecycle, given, other_side or {}, messages, once, check)
    elif given is None and not (other_side or messages or once or check):
        explorer = of_random_lifecycles()
    else:
        raise ScriptError("explore() without a lifecycle takes no other argument than seed and runs")
    done, began = Exploration(), time.process_time()
    for number in range(seed, seed + runs):
        one = explorer.scenario(number)
        done.runs += 1
        if findings := explorer.play(one, done.covered):
            smallest = explorer.smallest(one, findings[0].kind)
            raise ExplorationFailed(explorer.play(smallest)[0], smallest, number)
    done.cpu_seconds = time.process_time() - began
    return done
