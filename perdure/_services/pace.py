"""The pace of a relay: how many entities its next batch has, and how long it waits before that."""

from __future__ import annotations

import time
from collections.abc import Sequence

BATCH = 50
"""Entities in one batch, and rows of each."""
FEW = 20
"""Rows per second from which on rows wait for each other."""
CALM = 1.0
"""Seconds without many rows, after which commits notify a relay again."""
SHARED = 10
"""Number of rows that then share a transaction, unless they would wait longer than `LONGEST_WAIT`."""
LONGEST_WAIT = 0.2
FULL = 0.01
"""Seconds until the next batch, while the worker of this process has no free slot for more lifecycles."""
POLLS = 8
"""Number of polls in each `relay_poll_interval` while commits do not notify the relay."""
FEWEST_STARTS = 10
"""Starts at once, even if the worker is busy: the workers of other processes may be free."""


class Pace:
    """Chooses the size of the next batch, and the pause before it.

    Args:
        interval: `relay_poll_interval`, in seconds.

    Attributes:
        window: entities in the next batch: one while Temporal is away, and then twice as many each time, so that the
            backlog does not overload Temporal.
        starts: the limit of the worker in this process.
    """

    def __init__(self, interval: float) -> None:
        self._interval = interval
        self.window = BATCH
        self.starts = StartLimit(BATCH)
        self._alone = 0
        """Number of batches of one entity each, after a batch that could not be recorded."""
        self._delivered_at = 0.0
        self._busy_until = 0.0

    @property
    def busy(self) -> bool:
        """Whether there were many rows a moment ago."""
        return time.monotonic() <= self._busy_until

    def note_busy(self) -> None:
        """Note that many rows are committed."""
        self._busy_until = max(self._busy_until, time.monotonic() + CALM)

    def next_size(self) -> int:
        """Number of entities in the batch that begins now."""
        size = 1 if self._alone else min(self.window, self.starts.most)
        self._alone = max(self._alone - 1, 0)
        return size

    def divide(self, entities: int) -> None:
        """Deliver the entities of a batch that could not be recorded one by one. Others may become due meanwhile."""
        self._alone = 2 * entities

    def note_failures(self, failed: int, entities: int, *, away: bool) -> None:
        """Note how many of the entities could not be delivered, and whether Temporal is away."""
        if away:
            self.window = 1
        else:
            self.window = max(1, self.window // 2) if 2 * failed > entities else min(BATCH, self.window * 2)

    def idle(self, *, notified: bool) -> float:
        """Seconds between two polls of an empty outbox."""
        return self._interval if notified else self._interval / POLLS

    def after(self, delivered: int, *, notified: bool) -> float:
        """Seconds from a batch with so many rows to the next one. The relay polls often for few rows, so that each is
        delivered soon; many rows wait for each other and share a transaction."""
        now = time.monotonic()
        rate = delivered / max(now - self._delivered_at, 0.001)
        self._delivered_at = now
        idle = self.idle(notified=notified)
        if rate < FEW:
            return idle
        self.note_busy()
        return max(idle, min(SHARED / rate, LONGEST_WAIT))


class StartLimit:
    """Limits the relay to about as many starts as the worker beside it takes eagerly.

    Temporal gives the first task of an eager start with its answer, without its task queue, if the worker has a free
    slot. The other starts cost Temporal and the worker a third more. They wait in the outbox instead, where each
    relay may take them.

    A relay without a worker in its process has no limit.
    """

    def __init__(self, most: int) -> None:
        self.most = most
        """Number of starts at once."""
        self._highest = most
        self._worker = False

    def note(self, eager: Sequence[bool]) -> bool:
        """Note which starts were eager. Returns False if the worker had no free slot for some of them."""
        self._worker = self._worker or any(eager)
        if not self._worker or all(eager):
            self.most = min(2 * self.most, self._highest)
            return True
        self.most = max(sum(eager), FEWEST_STARTS)
        return False
