"""All that waits for a person, in groups of what one answer may fit."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from perdure._operations.reach import EVERYTHING, Reach
from perdure._store.parked import ABOUT_DOUBT
from perdure._store.schema import Connection
from perdure._store.sql import queries

query = queries(__name__)

GROUPS = 60
"""Groups that are read, of each kind the largest."""


@dataclass(frozen=True, slots=True)
class Group:
    """What waits for the same reason.

    Attributes:
        kind: `doubt`, `attention`, `rejected`, or `ended` for doubts that outlived their entities.
        effect: of doubts, without its suffix; of what was rejected, its kind.
        reason: of doubts, why it is not known; of the others, what a person is needed for.
        states: that the entities are in.
        waiting: how many.
        more: there are more groups of its kind than were read.
        alike: all groups of its kind, lifecycle and effect, read or not.
        waiting_alike: how many wait in these.
    """

    kind: str
    lifecycle: str
    effect: str | None
    reason: str
    states: tuple[str, ...]
    waiting: int
    oldest: datetime
    more: bool
    alike: int
    waiting_alike: int


async def read_inbox(
    connection: Connection, reach: Reach = EVERYTHING, lifecycle: str | None = None, effect: str | None = None
) -> list[Group]:
    """The groups: doubts first, then what else needs a person.

    Args:
        lifecycle, effect: only those of this lifecycle, or effect without a suffix; None = all.
    """
    rows = await connection.fetch(query("inbox_groups"), *reach.columns, lifecycle, effect, GROUPS, ABOUT_DOUBT)
    return [Group(**{**row, "states": tuple(row["states"])}) for row in rows]
