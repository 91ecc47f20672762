"""An asyncio event loop on virtual time: a sleep of a month takes no time, and the same program runs the same way."""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from typing import Any, TypeVar

T = TypeVar("T")


class StandsStill(Exception):
    """No callback is ready, no timer is set, and nothing outside is under way: nothing will ever happen again."""


class NeverEnds(Exception):
    """The next timer lies past the end of the loop's time."""


class VirtualLoop(asyncio.SelectorEventLoop):
    """Runs callbacks in the order in which they were scheduled; its clock moves to the next timer when none is ready.

    Args:
        start: the time of day at which the loop's clock begins (aware).
        longest: how much virtual time there is.
    """

    def __init__(self, start: datetime, longest: timedelta) -> None:
        self._elapsed = 0.0
        self._longest = longest.total_seconds()
        self._start = start
        self.external = 0
        """How many calls to real servers are under way. While there are some, virtual time stands still."""
        super().__init__(_VirtualSelector(self))

    def time(self) -> float:
        """Seconds of virtual time since the loop was made."""
        return self._elapsed

    def boot_clock(self) -> float:
        """What `perdure.contracts.attempt.boot_clock` returns while this loop runs."""
        return self._elapsed

    @property
    def now(self) -> datetime:
        """The virtual time of day."""
        return self._start + timedelta(seconds=self._elapsed)

    def advance(self, seconds: float) -> None:
        """Move the clock forward to the next timer.

        Raises:
            NeverEnds: it lies past the end of time.
        """
        if self._elapsed + seconds > self._longest:
            raise NeverEnds
        self._elapsed += seconds


class _VirtualSelector(selectors.BaseSelector):
    """Asks the operating system only while a call to a real server is under way."""

    def __init__(self, loop: VirtualLoop) -> None:
        self._loop = loop
        self._real = selectors.DefaultSelector()

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if self._loop.external:
            # An answer is read when nothing else can be done, so that it comes at the same moment each time.
            return [] if timeout == 0 else self._real.select(10.0)
        if timeout is None:
            raise StandsStill
        if timeout > 0:
            self._loop.advance(timeout)
        return []

    def register(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        return self._real.register(fileobj, events, data)

    def unregister(self, fileobj: Any) -> selectors.SelectorKey:
        return self._real.unregister(fileobj)

    def modify(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        return self._real.modify(fileobj, events, data)

    def close(self) -> None:
        self._real.close()

    def get_map(self) -> Mapping[Any, selectors.SelectorKey]:
        return self._real.get_map()


def entered(loop: VirtualLoop, step: Callable[[], T]) -> T:
    """What `step` returns, which enters the SDK's workflow instance as the running `loop` does.

    The instance is an event loop itself. It takes the place of the running loop and leaves none behind.
    """
    running = asyncio._get_running_loop()
    asyncio._set_running_loop(loop)
    try:
        return step()
    finally:
        asyncio._set_running_loop(running)
