"""The answer of the query `status`, which the Web UI's details show as well."""

from __future__ import annotations

from datetime import datetime

from pydantic import BaseModel

from perdure.contracts.outcomes import EffectStatus


class EffectProgress(BaseModel):
    """One effect that is being performed, in the answer of the query `status`."""

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
        version: version of the newest write of which the run has the answer; 0 = none yet.
        how_far: the line that the lifecycle gave to `Lifecycle.report`.
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
