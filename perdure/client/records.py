"""The results of a `Client`: the status of an entity, records of effects, and events."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from perdure.contracts.outcomes import EffectStatus


@dataclass(frozen=True, slots=True)
class EffectRecord:
    """The fence's record of one effect; `receipt` is JSON data."""

    key: str
    effect: str
    status: EffectStatus
    attempts: int
    first_at: datetime
    deadline: datetime
    receipt: Any
    why: str | None
    settled_by: str | None


@dataclass(frozen=True, slots=True)
class EntityStatus:
    """The status of an entity, as the mirror shows it.

    Attributes:
        state: a state of its lifecycle; `starting` until its start is delivered.
        final: whether `state` is final.
        since: time at which the entity entered that state; None if its month was dropped.
        waits_for_delivery: whether the start has not reached Temporal yet.
        rejected: why the start could not be delivered.
        effects: the effects of this generation; of an entity that has ended, also those of earlier ones that are in
            doubt.
        messages_waiting: number of messages that are not delivered yet.
        scope: the `PERDURE_SCOPE` of the database, `""` without one; None until a worker has run.
    """

    lifecycle: str
    id: str
    generation: int
    state: str
    final: bool
    since: datetime | None
    attention: str | None = None
    tenant: str | None = None
    waits_for_delivery: bool = False
    rejected: str | None = None
    effects: tuple[EffectRecord, ...] = ()
    messages_waiting: int = 0
    scope: str | None = None


@dataclass(frozen=True, slots=True)
class Event:
    """One transition of an entity.

    Attributes:
        position: the position after this event. Store it once the event is handled.
        generation: how often the entity had been restarted.
        version: grows with each transition of the entity's generation.
        state: the state after the transition.
        attention: why the entity needs a person.
        made_by: the person who caused the transition, or None.
    """

    position: str
    lifecycle: str
    id: str
    generation: int
    version: int
    state: str
    attention: str | None
    why: str | None
    made_by: str | None
    at: datetime
