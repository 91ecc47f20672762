"""What the workflow of a reconciliation and its parts hand to each other."""

from __future__ import annotations

from datetime import datetime

from pydantic import BaseModel, Field


class Named(BaseModel):
    """One entity; the generation is looked up where it is not known."""

    lifecycle: str
    id: str
    generation: int | None = None


class Asked(BaseModel):
    """What a reconciliation is to do.

    Attributes:
        by: who asked for it: `schedule`, `worker`, a person.
        only: this entity alone.
        grace: seconds; what was written since is left alone. None = as PERDURE_RECONCILIATION_GRACE says.
        everything: query every open workflow for its state, not only those that wrote since the last reconciliation.
    """

    by: str
    only: Named | None = None
    grace: float | None = None
    everything: bool = False


class Begun(BaseModel):
    """What each part is given."""

    run: int
    younger_than: datetime
    asked_since: datetime | None = None
    only: Named | None = None
    parts: list[str] = Field(default_factory=list)


class Done(BaseModel):
    """What became of the parts; `failed`: why, by their names."""

    begun: Begun
    seen: int = 0
    failed: dict[str, str] = Field(default_factory=dict)


class Counts(BaseModel):
    """Of one kind of difference."""

    mended: int = 0
    left: int = 0


class Summary(BaseModel):
    """What came of a reconciliation.

    Attributes:
        seen: open entities that were looked at.
        kinds: what was mended by this one, and what is left for a person, by kind.
        failed: why parts of it could not be done, by their names.
    """

    run: int
    seen: int = 0
    kinds: dict[str, Counts] = Field(default_factory=dict)
    failed: dict[str, str] = Field(default_factory=dict)

    @property
    def mended(self) -> int:
        """How many were mended."""
        return sum(each.mended for each in self.kinds.values())

    @property
    def left(self) -> int:
        """How many are left for a person."""
        return sum(each.left for each in self.kinds.values())
