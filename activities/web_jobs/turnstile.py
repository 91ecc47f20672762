"""Lets so many calls of one job type through at a time, in this worker: a page that hangs holds up its own jobs."""

from __future__ import annotations

import asyncio
import random
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta

from perdure import NotDone


class Place:
    """A place inside.

    Attributes:
        lost: whether another session has it now.
    """

    def __init__(self, resting: list[Place]) -> None:
        self._resting = resting
        self._taken = asyncio.Event()

    @property
    def lost(self) -> bool:
        return self._taken.is_set()

    async def rest(self, seconds: float) -> None:
        """Wait for this time without a call under way, or until another caller needs the place."""
        self._resting.append(self)
        try:
            await asyncio.wait_for(self._taken.wait(), seconds)
        except TimeoutError:
            pass
        finally:
            if not self.lost:
                self._resting.remove(self)

    def give_up(self) -> None:
        """Leave the place to another caller."""
        self._resting.remove(self)
        self._taken.set()


class Turnstile:
    """Counts the holders of places."""

    def __init__(self) -> None:
        self._inside: Counter[str] = Counter()
        self._resting: defaultdict[str, list[Place]] = defaultdict(list)

    @contextmanager
    def passed(self, name: str, most: int) -> Iterator[Place]:
        """Hold a place while the context lasts, or until it is lost. The holder that has rested longest loses it first.

        Raises:
            NotDone: `most` are inside already, and none of them rests. Nobody waits here: that would take the place of
                another type's job.
        """
        resting = self._resting[name]
        if self._inside[name] < most:
            self._inside[name] += 1
        elif resting:
            resting[0].give_up()
        else:
            pause = timedelta(seconds=random.uniform(1, 3))
            raise NotDone(f"{most} of {name} are under way here", retry_after=pause, counts=False)
        place = Place(resting)
        try:
            yield place
        finally:
            if not place.lost:
                self._inside[name] -= 1
