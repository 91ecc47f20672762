"""How often somebody may ask: so many a minute, and so many at the same time. One person never takes everything."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

_MOST = 10_000
WAITING = 40
"""Requests of one person that wait for one of that person's places."""


@dataclass(slots=True)
class Rate:
    """A bucket for each name, which fills again in a minute.

    Attributes:
        per_minute: requests that one name may send.
    """

    per_minute: int
    _buckets: dict[str, tuple[float, float]] = field(default_factory=dict)

    def wait(self, name: str) -> float:
        """Seconds until that name may ask; 0 = it may now, and has."""
        now = time.monotonic()
        left, at = self._buckets.pop(name, (float(self.per_minute), now))
        left = min(left + (now - at) * self.per_minute / 60, float(self.per_minute))
        allowed = left >= 1
        self._buckets[name] = (left - 1 if allowed else left), now
        while len(self._buckets) > _MOST:  # the one that has not asked for longest
            del self._buckets[next(iter(self._buckets))]
        return 0.0 if allowed else (1 - left) * 60 / self.per_minute


class Full(Exception):
    """So many requests of one person wait already."""


@dataclass(slots=True)
class _Place:
    free: asyncio.Semaphore
    requests: int = 0


@dataclass(slots=True)
class Places:
    """Requests of each person that are answered at the same time; more wait for these.

    Attributes:
        most: of one person.
    """

    most: int
    _places: dict[str, _Place] = field(default_factory=dict)

    @asynccontextmanager
    async def one(self, name: str) -> AsyncIterator[None]:
        """One of the places of a person.

        Raises:
            Full: too many wait for it already.
        """
        place = self._places.setdefault(name, _Place(asyncio.Semaphore(self.most)))
        if place.requests >= self.most + WAITING:
            raise Full
        place.requests += 1
        try:
            async with place.free:
                yield
        finally:
            place.requests -= 1
            if not place.requests:
                del self._places[name]


@dataclass(slots=True)
class Rates:
    """The rates of the console: what one address, and one person, may do in a minute."""

    requests: Rate = field(default_factory=lambda: Rate(600))
    sign_ins: Rate = field(default_factory=lambda: Rate(20))
    acts: Rate = field(default_factory=lambda: Rate(120))
