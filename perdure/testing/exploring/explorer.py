"""Makes the scenario of a seed, plays it, and makes one that failed small."""

from __future__ import annotations

import gc
import logging
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from random import Random
from typing import Any

from perdure._wire.writes import FenceOp
from perdure.app import contracts_of
from perdure.contracts.effects import Effect, Lookup
from perdure.contracts.keys import Entity
from perdure.contracts.outcomes import EffectStatus
from perdure.contracts.steps import Step
from perdure.testing.exploring.authoring import RARE, Author
from perdure.testing.exploring.interpreter import Explored
from perdure.testing.exploring.other_side import CALLS, LOOKS, SECRET
from perdure.testing.exploring.random_lifecycles import random_lifecycles
from perdure.testing.exploring.scenario import RENEWS, Finding, Scenario
from perdure.testing.exploring.scenarios import AT_RENEWAL, EVENTS, FAULTS, PLACES, scenario, shrink
from perdure.testing.exploring.subject import Subject
from perdure.testing.exploring.world import World

Contract = Effect[Any, Any] | Lookup[Any, Any] | Step[Any, Any]


class Explorer:
    """Explores one subject.

    Args:
        subject: what is explored.
        given: makes the input of a scenario.
    """

    def __init__(self, subject: Subject, given: Callable[[Random], Any]) -> None:
        self.subject = subject
        self._given = given
        self._contracts = contracts_of(subject.builds[0].lifecycle(subject.lifecycle))

    def scenario(self, seed: int) -> Scenario:
        """The scenario of a seed."""
        return scenario(seed, self._given(Random(seed)), self._contracts)

    def play(self, one: Scenario, covered: Counter[tuple[str, str]] | None = None) -> list[Finding]:
        """The findings of a scenario; `covered` counts each (place, event) in it."""
        with _collected_afterwards():
            return self.world(one, covered, traced=False).findings

    def world(self, one: Scenario, covered: Counter[tuple[str, str]] | None = None, *, traced: bool = True) -> World:
        """The world in which a scenario was played, as it is at the end."""
        world = World(self.subject, one, Counter() if covered is None else covered, traced=traced)
        with quiet():
            world.play(Entity(self.subject.lifecycle, "1"))
        return world

    def smallest(self, failed: Scenario, kind: str) -> Scenario:
        """The smallest scenario that was found to show the same kind of thing as `failed`."""
        return shrink(failed, lambda other: [each.kind for each in self.play(other)[:1]] == [kind])


def of_random_lifecycles() -> Explorer:
    """Explores random lifecycles, in an older and a newer build."""
    return Explorer(random_lifecycles(), lambda random: Author(random, RARE, starts=True, bugs=True).program(SECRET))


def catalogue() -> set[tuple[str, str]]:
    """Every (place, event) that random lifecycles can meet.

    `start_to_close` is left out: an activity ends by itself before that, unless its worker stands still several times,
    each time for less than its heartbeat may take.
    """
    contracts = contracts_of(Explored)
    effects = [each.identity for each in contracts if isinstance(each, Effect)]
    pairs = {("call", f"{how} {name}") for how in CALLS for name in effects}
    pairs |= {("look-up", f"{how} {each.identity}") for how in LOOKS for each in contracts if isinstance(each, Lookup)}
    pairs |= {(place, what) for place in PLACES for what in FAULTS}
    pairs |= {(RENEWS, what) for what in AT_RENEWAL}
    pairs |= {("event", what) for what in EVENTS}
    pairs |= {
        ("resolved", outcome.value) for outcome in (EffectStatus.DONE, EffectStatus.NOT_DONE, EffectStatus.ABANDONED)
    }
    pairs |= {("reply lost", op) for op in ("move", *(each.value for each in FenceOp))}
    pairs |= {("activity timed out", kind) for kind in ("schedule_to_start", "heartbeat")}
    pairs |= {("local activity timed out", "start_to_close")}
    pairs |= {("replayed", how) for how in ("plain", "with local activities")}
    pairs |= {("continued as new", str(count)) for count in range(2, 6)}
    return pairs | {("restarted", ""), ("task refused", "unseen event")}


@contextmanager
def _collected_afterwards() -> Iterator[None]:
    """Collect the garbage of a scenario at its end, in one go. Nothing of it is left then, and nothing else is looked
    through. In between, what is still in use would be looked through again and again."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        gc.collect(0)
        if enabled:
            gc.enable()


@contextmanager
def quiet() -> Iterator[None]:
    """Silence the logs of workers, because thousands are killed here."""
    before = logging.root.manager.disable
    if before >= logging.CRITICAL:
        yield
        return
    logging.disable(logging.CRITICAL)
    try:
        yield
    finally:
        logging.disable(before)
