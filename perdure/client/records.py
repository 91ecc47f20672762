"""What a `Client` hands out: where an entity is, what the fence has on record, and events."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from perdure.contracts.outcomes import EffectStatus


@dataclass(frozen=True, slots=True)
class EffectRecord:
    """What the fence has on record of one effect; `receipt` is JSON data."""

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
    """Where an entity is, as the mirror shows it.

    Attributes:
        state: as its lifecycle declares it; `starting` until it is delivered.
        final: whether `state` is final.
        since: since when it is in that state; None where its month was dropped.
        waits_for_delivery: it was started, and Temporal does not know it yet.
        rejected: why it could not be delivered.
        effects: of this generation.
        messages_waiting: how many messages to it are not delivered yet.
        scope: the `PERDURE_SCOPE` that its database works with, `""` without one; None until a worker has run.
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
        position: where the feed goes on after it; remember it once the event is dealt with.
        generation: how often the entity had been restarted.
        version: grows with each transition of the entity's generation.
        state: the one that it is in since then.
        attention: why it needs a person.
        made_by: the person, where it was one.
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
