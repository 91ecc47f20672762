"""Lets so many calls of one job type through at a time, in this worker: a page that hangs holds up its own jobs."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta

from perdure import NotDone


class Turnstile:
    """Counts who is inside."""

    def __init__(self) -> None:
        self._inside: Counter[str] = Counter()

    @contextmanager
    def passed(self, name: str, most: int) -> Iterator[None]:
        """Inside for as long as the context lasts.

        Raises:
            NotDone: `most` are inside already. Nobody waits here: that would take the place of another type's job.
        """
        if self._inside[name] >= most:
            pause = timedelta(seconds=random.uniform(1, 3))
            raise NotDone(f"{most} of {name} are under way here", retry_after=pause, counts=False)
        self._inside[name] += 1
        try:
            yield
        finally:
            self._inside[name] -= 1
