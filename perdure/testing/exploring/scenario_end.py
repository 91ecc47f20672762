"""What an author's own rule is checked against: how a scenario has ended."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from perdure.contracts.effects import Effect
from perdure.contracts.keys import Entity, Key
from perdure.contracts.outcomes import Abandoned
from perdure.contracts.states import STARTING
from perdure.testing.exploring.database import belongs
from perdure.testing.exploring.world import World


@dataclass(frozen=True)
class ScenarioEnd:
    """How a scenario has ended.

    Attributes:
        state: the final state.
        states: the states after the first one, in order.
        snapshot: the last snapshot, as JSON data; None = there was none.
        abandoned: whether a person has abandoned a doubt, so that the lifecycle cannot know what was done.
        happened: how often the other side did each effect, by its name.
    """

    state: Any
    states: Sequence[Any]
    snapshot: Any
    abandoned: bool
    happened: Mapping[str, int]

    def done(self, effect: Effect[Any, Any]) -> int:
        """How often the other side did an effect, under all keys of the entity."""
        return self.happened.get(effect.identity, 0)

    def __str__(self) -> str:
        done = ", ".join(f"{name} {count}x" for name, count in self.happened.items()) or "nothing"
        return f"ended as {self.state}, by way of {', '.join(self.states)}; the other side did {done}"


def end_of(world: World, entity: Entity) -> ScenarioEnd:
    """How an entity has ended in a world."""
    declared = world.subject.app_with(entity.lifecycle).lifecycle(entity.lifecycle).declared
    names = [move.state for move in world.database.moves(entity) if move.state != STARTING]
    states = [declared[name].name for name, _ in groupby([declared.initial.value, *names])][1:]
    happened: dict[str, int] = {}
    for key, account in world.other_side.accounts.items():
        if belongs(key, entity) and account.done_at:
            name = Key(key).performance[0]
            happened[name] = happened.get(name, 0) + len(account.done_at)
    return ScenarioEnd(
        states[-1] if states else declared.initial,
        states,
        world.database.store.snapshot(entity.lifecycle, entity.id),
        any(isinstance(each.end, Abandoned) for ends in world.observed.results.values() for each in ends),
        happened,
    )
