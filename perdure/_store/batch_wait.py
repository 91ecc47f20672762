"""Decides whether a write waits for others: only while commits are slow, writes are frequent, and waiting has helped.

A commit that waits milliseconds for a disk or a standby costs the server the same for one write as for ten. Writes do
not wait if commits are fast, or if no other write is expected.
"""

from __future__ import annotations

import math

SLOW_COMMIT = 0.003
"""Seconds. Writes do not wait if commits are faster."""
WINDOW = 6
"""Commit times for which a write may wait."""
LONGEST = 0.06
"""Seconds for which a write waits at most."""
FEWEST_WRITES = 3
"""Writes that must be expected within the window."""
MEMORY = 0.5
"""Seconds after which a measurement counts for a third."""
SILENCE = 0.25
"""Seconds without a write after which a burst is over, so that the first write after it waits for nobody."""
_SHORTEST_BREAK, _LONGEST_BREAK = 1.0, 16.0


class BatchWait:
    """Measures the duration of commits, the rate of writes, and the gain of waiting. Times are in seconds."""

    def __init__(self) -> None:
        self._took = 0.0
        self._rate = 0.0
        self._last = 0.0
        self._break = _SHORTEST_BREAK
        self._alone_until = 0.0

    def note_write(self, now: float) -> None:
        """Record a new write."""
        rate = self._rate_at(now) if now < self._last + SILENCE else 0.0
        self._rate = rate + 1 / MEMORY
        self._last = now

    def note_commit(self, seconds: float) -> None:
        """Record the duration of a commit."""
        self._took += 0.3 * (seconds - self._took)

    def seconds(self, now: float) -> float:
        """How long the next batch should wait; 0 = not at all."""
        if self._took < SLOW_COMMIT or now < self._alone_until:
            return 0.0
        window = min(WINDOW * self._took, LONGEST)
        return window if self._rate_at(now) * window >= FEWEST_WRITES else 0.0

    def note_gain(self, writes: int, now: float) -> None:
        """Record how many writes arrived while one waited. If all writers wait for each other, none arrive: then no
        write waits for a while."""
        if writes >= FEWEST_WRITES - 1:
            self._break = _SHORTEST_BREAK
        else:
            self._alone_until = now + self._break
            self._break = min(self._break * 2, _LONGEST_BREAK)

    def _rate_at(self, now: float) -> float:
        return self._rate * math.exp((self._last - now) / MEMORY)
