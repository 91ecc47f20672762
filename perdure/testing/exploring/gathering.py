"""Gathers what a world knows of an entity that is over, for the judge."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perdure.contracts.keys import Entity
from perdure.testing.exploring.database import belongs
from perdure.testing.exploring.evidence import Evidence, PerformResult

if TYPE_CHECKING:
    from perdure.testing.exploring.world import World


def evidence_of(world: World, entity: Entity) -> Evidence:
    """What is known of an entity that is over."""
    store, observed = world.database.store, world.observed
    kept, secret = store.snapshot(entity.lifecycle, entity.id), world.subject.secret
    keeps = secret is not None and isinstance(kept, dict) and "received" in kept
    results = observed.results_at_end(entity, store.version(entity))
    rounds = [Entity(entity.lifecycle, entity.id, number) for number in range(entity.generation + 1)]

    def is_its_own(key: str) -> bool:  # results of another entity count where that one is judged
        return any(belongs(key, each) for each in rounds)

    effects = {key: view for key, view in store.effects().items() if is_its_own(key)}
    begun = {key for key, view in effects.items() if view.attempts}
    without_attempt = {key for key in observed.entering if is_its_own(key)} - begun
    return Evidence(
        entity,
        results={key: each for key, each in results.items() if is_its_own(key)},
        accounts=world.other_side.accounts,
        effects=effects,
        moves=world.database.moves(entity),
        states=world.subject.app_with(entity.lifecycle).lifecycle(entity.lifecycle).declared,
        skipped=observed.skipped[entity].union(*(observed.entering[key] for key in without_attempt)),
        settled_by_person=observed.settled_by_person,
        records_lost=observed.records_lost,
        on_record_at_end={key for each in rounds for key in observed.on_record_at_end[each]},
        newer_than_end=observed.newer_than_end[entity],
        histories_lost=observed.histories_lost,
        tasks_lost=observed.tasks_lost,
        performed_again=observed.performed_again,
        workers_lost=observed.workers_lost,
        told_in_doubt=observed.told_in_doubt if observed.histories_lost or observed.from_record else (),
        sent=world.sent(entity),
        received=kept["received"] if keeps else None,
        acknowledged=observed.acknowledged[entity] if keeps else (),
        updated=kept.get("updated", ()) if keeps else (),
        secret=secret,
    )


def results_of(world: World, entity: Entity) -> dict[str, list[PerformResult]]:
    """The results under all keys that are of no other entity."""
    others = [row.entity for entity_id, row in world.database.rows.items() if entity_id != entity.id]
    return {
        key: each for key, each in world.observed.results.items() if not any(belongs(key, other) for other in others)
    }
