"""Limits how many lifecycles a relay starts at once to the free slots of the worker in its process."""

from __future__ import annotations

from collections.abc import Sequence

LEAST = 10
"""Starts at once, even if the worker is busy: the workers of other processes may be free."""


class Room:
    """Limits the relay to about as many starts as the worker beside it takes eagerly.

    Temporal gives the first task of an eager start with its answer, without its task queue, if the worker has a free
    slot. The other starts cost Temporal and the worker a third more. They wait in the outbox instead, where each
    relay may take them.

    A relay without a worker in its process has no limit.
    """

    def __init__(self, most: int) -> None:
        self.starts = most
        """Number of starts at once."""
        self._most = most
        self._worker = False

    def note(self, eager: Sequence[bool]) -> bool:
        """Note which starts were eager. Returns False if the worker had no room for some of them."""
        self._worker = self._worker or any(eager)
        if not self._worker or all(eager):
            self.starts = min(2 * self.starts, self._most)
            return True
        self.starts = max(sum(eager), LEAST)
        return False
