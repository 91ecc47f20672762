"""Whether anything has changed since the last look: of one entity, or within somebody's reach."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from perdure._operations.reach import Reach
from perdure._store.schema import Connection
from perdure._store.sql import queries

query = queries(__name__)

WINDOW, MOST = 2000, 20_000
"""Transitions before the newest one that are looked at again, because the later of two may be committed first; and how
many are looked at in any case."""
_QUIET = 5
"""Looks without a newer transition after which nothing earlier is expected any more."""


def change_of(lifecycle: str, entity_id: str) -> Callable[[Connection], Awaitable[bool]]:
    """Returns at each call whether an entity has changed since the call before."""
    last: str | None = None

    async def changed(connection: Connection) -> bool:
        nonlocal last
        before, last = last, await connection.fetchval(query("newest_change"), lifecycle, entity_id) or ""
        return before not in (None, last)

    return changed


@dataclass(slots=True)
class Changes:
    """Returns at each call whether something within reach was put on record since the call before."""

    reach: Reach
    _newest: int | None = None
    _quiet: int = 0
    _seen: frozenset[int] = field(default_factory=frozenset)

    async def __call__(self, connection: Connection) -> bool:
        """Whether it was."""
        newest = await connection.fetchval(query("newest_transition")) or 0
        before, self._newest = self._newest, newest
        if self.reach.is_everything:
            return before not in (None, newest)
        self._quiet = self._quiet + 1 if newest == before else 0
        if self._quiet > _QUIET:
            return False
        after = max(min(newest if before is None else before, newest - WINDOW), newest - MOST)
        rows = await connection.fetch(query("transitions_within"), after, *self.reach.columns)
        seen, self._seen = self._seen, frozenset(row["seq"] for row in rows)
        return before is not None and not self._seen <= seen
