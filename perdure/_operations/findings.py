"""What reconciliations saw: what is left for a person, and what was mended."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from perdure._operations.reach import EVERYTHING, Reach
from perdure._store.schema import Connection
from perdure._store.sql import queries

query = queries(__name__)


@dataclass(frozen=True, slots=True)
class Finding:
    """One of them.

    Attributes:
        lifecycle, id: of its entity; empty where it is about none.
        about: distinguishes two findings of one kind and entity.
        advice: what to do.
        run: the reconciliation that saw it last.
    """

    kind: str
    lifecycle: str
    id: str
    about: str
    generation: int
    what: str
    advice: str
    mended: bool
    first_seen: datetime
    last_seen: datetime
    run: int
    tenant: str | None

    @property
    def place(self) -> tuple[bool, datetime, str, str, str, str]:
        """Where it stands in the list."""
        return self.mended, self.first_seen, self.kind, self.lifecycle, self.id, self.about


@dataclass(frozen=True, slots=True)
class FindingSelection:
    """A filter of findings; what is None filters nothing."""

    kind: str | None = None
    lifecycle: str | None = None
    mended: bool | None = None
    reach: Reach = EVERYTHING


async def select_findings(
    connection: Connection, wanted: FindingSelection, limit: int, after: tuple[Any, ...] | None = None
) -> list[Finding]:
    """Those behind `after`, the place of one: what is left for a person first, the oldest first."""
    filters = (wanted.kind, wanted.lifecycle, wanted.mended, *wanted.reach.columns)
    rows = await connection.fetch(query("findings_chosen"), *filters, *(after or (None,) * 6), limit)
    return [Finding(**row) for row in rows]


async def finding_kinds(connection: Connection, reach: Reach = EVERYTHING) -> list[dict[str, Any]]:
    """Each kind that there is, with how many are left for a person and since when, and how many were mended."""
    return [dict(row) for row in await connection.fetch(query("finding_kinds"), *reach.columns)]
