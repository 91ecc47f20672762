"""The data that the workflow of a reconciliation and its activities exchange."""

from __future__ import annotations

from datetime import datetime

from pydantic import BaseModel, Field


class Named(BaseModel):
    """One entity. An unknown generation is looked up."""

    lifecycle: str
    id: str
    generation: int | None = None


class ReconciliationRequest(BaseModel):
    """The order for a reconciliation.

    Attributes:
        by: who requested it: `schedule`, `worker`, a person.
        only: reconcile this entity alone.
        grace: seconds in which a written row is ignored. None = PERDURE_RECONCILIATION_GRACE.
        everything: query every open workflow for its state, not only those that wrote since the last reconciliation.
    """

    by: str
    only: Named | None = None
    grace: float | None = None
    everything: bool = False


class Begun(BaseModel):
    """The argument of each part."""

    run: int
    younger_than: datetime
    asked_since: datetime | None = None
    only: Named | None = None
    parts: list[str] = Field(default_factory=list)


class Checked(BaseModel):
    """The result of a part.

    Attributes:
        seen: number of checked open entities.
        lifecycles: those of the worker that executed it. Workers of different builds may have different ones.
    """

    seen: int = 0
    lifecycles: list[str] = Field(default_factory=list)


class Done(BaseModel):
    """The results of the parts, by name; `failed` holds the reason of each part that failed."""

    begun: Begun
    checked: dict[str, Checked] = Field(default_factory=dict)
    failed: dict[str, str] = Field(default_factory=dict)


class Counts(BaseModel):
    """The counts of one kind of difference."""

    mended: int = 0
    left: int = 0


class Summary(BaseModel):
    """The result of a reconciliation.

    Attributes:
        seen: number of open entities that were checked.
        kinds: differences that were mended, and those that are left for a person, by kind.
        failed: why parts failed, by the name of the part.
    """

    run: int
    seen: int = 0
    kinds: dict[str, Counts] = Field(default_factory=dict)
    failed: dict[str, str] = Field(default_factory=dict)

    @property
    def mended(self) -> int:
        """Number of mended differences."""
        return sum(each.mended for each in self.kinds.values())

    @property
    def left(self) -> int:
        """Number of differences that are left for a person."""
        return sum(each.left for each in self.kinds.values())
