"""Whether anything has changed since the last look: of one entity, or within somebody's reach."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from perdure._operations.reach import Reach
from perdure._store.schema import Connection
from perdure._store.sql import queries

query = queries(__name__)

WINDOW, MOST = 2000, 20_000
"""Transitions before the newest one that are looked at again, because the later of two may be committed first; and how
many are looked at in any case."""
SHARE = 20
"""A look at what waits for a person reads all of it, and the next one comes after so many times its duration."""
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
    """Returns at each call whether something within reach was put on record since the call before: a transition, or
    something else that waits for a person."""

    reach: Reach
    _newest: int | None = None
    _quiet: int = 0
    _seen: frozenset[int] = field(default_factory=frozenset)
    _waiting: str | None = None
    _looks_at: float = 0.0

    async def __call__(self, connection: Connection) -> bool:
        """Whether it was."""
        recorded = await self._recorded(connection)
        return await self._waits_for_other(connection) or recorded

    async def _recorded(self, connection: Connection) -> bool:
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

    async def _waits_for_other(self, connection: Connection) -> bool:
        began = time.monotonic()
        if began < self._looks_at:
            return False
        before, self._waiting = (
            self._waiting,
            await connection.fetchval(query("waiting_for_person"), *self.reach.columns),
        )
        now = time.monotonic()
        self._looks_at = now + SHARE * (now - began)
        return before not in (None, self._waiting)
