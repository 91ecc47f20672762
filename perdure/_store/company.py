"""Whether a write should wait for company: only while commits are slow, writes come often, and waiting has paid.

A commit that waits for a disk or a standby for milliseconds costs the server the same for one write as for ten. One
that is fast is never waited with, nor is a write that would stay alone.
"""

from __future__ import annotations

import math

SLOW_COMMIT = 0.003
"""Seconds; commits that are faster are not worth waiting for."""
WINDOW = 6
"""Commit times for which a write may wait."""
LONGEST = 0.06
"""Seconds for which it waits at most."""
COMPANY = 3
"""How many writes must be expected within the window."""
MEMORY = 0.5
"""Seconds after which the past counts for a third."""
_SHORTEST_BREAK, _LONGEST_BREAK = 1.0, 16.0


class Company:
    """Knows how long commits take, how often writes come, and whether waiting brought any. Times in seconds."""

    def __init__(self) -> None:
        self._took = 0.0
        self._rate = 0.0
        self._last = 0.0
        self._break = _SHORTEST_BREAK
        self._alone_until = 0.0

    def arrived(self, now: float) -> None:
        """A write came."""
        self._rate = self._rate_at(now) + 1 / MEMORY
        self._last = now

    def committed(self, seconds: float) -> None:
        """A commit took so long."""
        self._took += 0.3 * (seconds - self._took)

    def worth(self, now: float) -> float:
        """How long the next batch should wait; 0 = not at all."""
        if self._took < SLOW_COMMIT or now < self._alone_until:
            return 0.0
        window = min(WINDOW * self._took, LONGEST)
        return window if self._rate_at(now) * window >= COMPANY else 0.0

    def brought(self, writes: int, now: float) -> None:
        """Waiting brought so many. Where all who write wait for each other, none come: then it is left for a while."""
        if writes >= COMPANY - 1:
            self._break = _SHORTEST_BREAK
        else:
            self._alone_until = now + self._break
            self._break = min(self._break * 2, _LONGEST_BREAK)

    def _rate_at(self, now: float) -> float:
        return self._rate * math.exp((self._last - now) / MEMORY)
