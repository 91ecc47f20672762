"""What the query `status` answers, and what the Web UI's details are made of."""

from __future__ import annotations

from datetime import datetime

from pydantic import BaseModel

from perdure.contracts.outcomes import EffectStatus


class EffectProgress(BaseModel):
    """One effect being performed, as the query `status` shows it."""

    effect: str
    key: str
    status: EffectStatus
    attempts: int
    parked: bool
    why: str | None
    next_at: datetime | None


class LifecycleStatus(BaseModel):
    """Answer of the query `status`.

    Attributes:
        version: of the newest entry that the run knows to be on record, 0 = none yet.
        how_far: what its author says of that; see `Lifecycle.report`.
    """

    lifecycle: str
    id: str
    generation: int
    state: str
    version: int = 0
    since: datetime
    final: bool
    attention: str | None
    how_far: str | None = None
    waits_for_retry: bool
    effects: list[EffectProgress]
