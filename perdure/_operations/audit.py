"""Who did what: the transitions that a person made, or asked for."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from perdure._operations.reach import EVERYTHING, Reach
from perdure._store.schema import Connection
from perdure._store.sql import queries
from perdure.contracts.keys import Entity

query = queries(__name__)

STRETCH = 10_000
"""Acts that one page looks through, where a filter chooses few of them."""

_COLUMNS = {
    **{name: name for name in ("seq", "at", "lifecycle", "id", "generation", "state", "why")},
    "by": "made_by",
    "role": "session_role",
}


@dataclass(frozen=True, slots=True)
class AuditSelection:
    """A filter of acts; what is None filters nothing.

    Attributes:
        by: who, exactly as on record.
        why: a part of what was done and why.
        since: from then on.
        reach: within it.
    """

    by: str | None = None
    lifecycle: str | None = None
    id: str | None = None
    why: str | None = None
    since: datetime | None = None
    reach: Reach = EVERYTHING


@dataclass(frozen=True, slots=True)
class Act:
    """One act.

    Attributes:
        why: what was done, and the note.
        by: what the caller named; `role` is the role that PostgreSQL authenticated.
    """

    seq: int
    at: datetime
    lifecycle: str
    id: str
    generation: int
    state: str | None
    why: str | None
    by: str
    role: str | None


@dataclass(frozen=True, slots=True)
class Stretch:
    """The acts in a stretch of all of them, the newest first.

    Attributes:
        before: the number before which the next stretch begins; None = there is none.
        since: the time of the oldest act that was looked at.
    """

    acts: list[Act]
    before: int | None
    since: datetime | None


async def read_acts(connection: Connection, wanted: AuditSelection, limit: int, before: int | None = None) -> Stretch:
    """The newest acts before a number, `limit` at most."""
    filters = (wanted.by, wanted.lifecycle, wanted.id, wanted.why, wanted.since, *wanted.reach.columns)
    rows = await connection.fetch(query("audit"), STRETCH, before, *filters, limit + 1)
    acts = [Act(**{name: row[column] for name, column in _COLUMNS.items()}) for row in rows if row["seq"] is not None]
    if len(acts) > limit:
        return Stretch(acts[:limit], acts[limit - 1].seq, acts[limit - 1].at)
    more = bool(rows) and rows[0]["looked"] == STRETCH
    return Stretch(acts, rows[0]["upto"] if more else None, rows[0]["upto_at"] if rows else None)


async def read_reasons(connection: Connection, entity: Entity, by: str, since: datetime) -> list[str]:
    """What somebody has done to an entity since a time of the database's clock, as it is on record."""
    rows = await connection.fetch(query("reasons_since"), entity.lifecycle, entity.id, by, since)
    return [row["why"] for row in rows]
