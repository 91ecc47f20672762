"""Asyncio event loops on virtual time: a sleep of a month takes no time, and the same program runs the same way."""

from __future__ import annotations

import asyncio
import heapq
import sys
from collections import deque
from collections.abc import AsyncGenerator, Callable, Collection, Coroutine
from contextvars import Context, copy_context
from datetime import datetime, timedelta
from types import FunctionType, MethodType
from typing import Any, TypeVar

T = TypeVar("T")

MOMENT = 1e-9
"""Seconds between two timers that ring together: the clock may stay where it is between them."""
PAUSE = 600.0
"""Seconds at most for which a longer pause counts, since a lifecycle may wait for months."""


class StandsStill(Exception):
    """No callback is ready and no timer is set: nothing will ever happen again."""


class NeverEnds(Exception):
    """Timer follows timer for longer than the loop's time."""


class VirtualTime(asyncio.AbstractEventLoop):
    """The clock of a loop on virtual time.

    Args:
        start: the time of day at which the loop's clock begins (aware).
        longest: how much virtual time there is. Of each pause, `PAUSE` counts at most.
    """

    def __init__(self, start: datetime, longest: timedelta) -> None:
        self._elapsed = self._counted = 0.0
        self._longest = longest.total_seconds()
        self._start = start

    def time(self) -> float:
        """Seconds of virtual time since the loop was made."""
        return self._elapsed

    def boot_clock(self) -> float:
        """The result of `perdure.contracts.attempt.boot_clock` while this loop runs."""
        return self._elapsed

    @property
    def now(self) -> datetime:
        """The virtual time of day."""
        return self._start + timedelta(seconds=self._elapsed)

    def hold(self, owns: Callable[[Context], bool]) -> Callable[[], None]:
        """Take no step of a task in whose context `owns` is true, where the loop can do that; its timers go on.

        Returns:
            What lets those steps follow, in the order in which they were due.
        """
        return lambda: None

    def pending(self) -> Collection[asyncio.Task[Any]]:
        """The tasks that have not ended."""
        return asyncio.all_tasks(self)

    def advance(self, seconds: float) -> None:
        """Move the clock forward to the next timer.

        Raises:
            NeverEnds: there is no more virtual time.
        """
        self._counted += min(seconds, PAUSE)
        if self._counted > self._longest:
            raise NeverEnds
        self._elapsed += seconds


class VirtualLoop(VirtualTime, asyncio.BaseEventLoop):
    """Runs callbacks in the order in which they were scheduled; its clock moves to the next timer when none is ready.

    It can do what coroutines need that wait for each other and for the time, and nothing else: no threads, no files, no
    sockets. So it costs a third of what asyncio's own loop costs. An exception in a callback ends `run_forever`.
    """

    def __init__(self, start: datetime, longest: timedelta) -> None:
        VirtualTime.__init__(self, start, longest)  # and not that of asyncio's loop: nothing of its state is used
        self._ready: deque[_Call] = deque()
        self._timers: list[tuple[float, _Timer]] = []
        self._held: list[tuple[Callable[[Context], bool], list[_Call]]] = []
        self._tasks: list[asyncio.Task[Any]] = []
        self._stopping = self._closed = False

    def hold(self, owns: Callable[[Context], bool]) -> Callable[[], None]:
        """See base class."""
        held: list[_Call] = []
        entry = owns, held
        self._held.append(entry)

        def release() -> None:
            if entry in self._held:
                self._held.remove(entry)
                self._ready.extend(held)

        return release

    def call_soon(  # type: ignore[override]
        self, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> _Call:
        """See base class."""
        call = _Call(callback, args, context)
        self._ready.append(call)
        return call

    def call_later(  # type: ignore[override]
        self, delay: float, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> _Timer:
        """See base class."""
        timer = _Timer(callback, args, context)
        timer.at = self._elapsed + delay
        heapq.heappush(self._timers, (timer.at, timer))
        return timer

    def call_at(  # type: ignore[override]
        self, when: float, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> _Timer:
        """See base class."""
        timer = _Timer(callback, args, context)
        timer.at = when
        heapq.heappush(self._timers, (when, timer))
        return timer

    def create_future(self) -> asyncio.Future[Any]:
        """See base class."""
        return asyncio.Future(loop=self)

    def create_task(self, coro: Any, *, name: Any = None, context: Context | None = None) -> asyncio.Task[Any]:
        """See base class."""
        task: asyncio.Task[Any] = asyncio.Task(coro, loop=self, name=name, context=context)
        self._tasks.append(task)
        return task

    def pending(self) -> Collection[asyncio.Task[Any]]:
        """See base class. `asyncio.all_tasks` looks through those of earlier loops as well."""
        return [task for task in self._tasks if not task.done()]

    def run_forever(self) -> None:
        """Run until `stop`.

        Raises:
            StandsStill: nothing will ever happen again.
            NeverEnds: there is no more virtual time.
        """
        hooks = sys.get_asyncgen_hooks()
        sys.set_asyncgen_hooks(finalizer=self._end_generator)
        asyncio._set_running_loop(self)
        self._stopping = False
        try:
            while not self._stopping:
                self._turn()
        finally:
            asyncio._set_running_loop(None)
            sys.set_asyncgen_hooks(*hooks)

    def _turn(self) -> None:
        ready, timers = self._ready, self._timers
        while timers and timers[0][1].is_cancelled:
            heapq.heappop(timers)
        if not ready:
            if not timers:
                raise StandsStill
            if (wait := timers[0][0] - self._elapsed) > 0:
                self.advance(wait)
        end = self._elapsed + MOMENT
        while timers and timers[0][0] <= end:  # equal where years have passed: floats have no nanoseconds there
            ready.append(heapq.heappop(timers)[1])
        for _ in range(len(ready)):
            call = ready.popleft()
            if not call.is_cancelled and not (self._held and self._is_held(call)):
                call.context.run(call.callback, *call.args)

    def _is_held(self, call: _Call) -> bool:
        if isinstance(call.callback, (FunctionType, MethodType)):  # no step of a task
            return False
        for owns, held in self._held:
            if owns(call.context):
                held.append(call)
                return True
        return False

    def stop(self) -> None:
        """End `run_forever` after this turn."""
        self._stopping = True

    def close(self) -> None:
        """Forget what was scheduled."""
        self._closed = True
        self._ready.clear()
        self._timers.clear()
        self._tasks.clear()

    def is_running(self) -> bool:
        """See base class."""
        return asyncio._get_running_loop() is self

    def is_closed(self) -> bool:
        """See base class."""
        return self._closed

    def get_debug(self) -> bool:
        """See base class."""
        return False

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        """Ignore what an activity of a killed worker has raised."""

    def _end_generator(self, generator: AsyncGenerator[Any, Any]) -> None:
        ending: Coroutine[Any, Any, None] = generator.aclose()
        self.call_soon(self.create_task, ending)


class _Call:
    """A callback that is to run, as `asyncio.Handle`."""

    __slots__ = ("args", "callback", "context", "is_cancelled")

    def __init__(self, callback: Callable[..., object], args: tuple[Any, ...], context: Context | None) -> None:
        self.callback: Callable[..., object] = callback
        self.args: tuple[Any, ...] = args
        self.is_cancelled: bool = False
        self.context: Context = copy_context() if context is None else context

    def cancel(self) -> None:
        self.is_cancelled = True

    def cancelled(self) -> bool:
        return self.is_cancelled


class _Timer(_Call):
    """A callback that is to run at a time, as `asyncio.TimerHandle`."""

    __slots__ = ("at",)
    at: float

    def when(self) -> float:
        return self.at

    def __lt__(self, other: _Timer) -> bool:
        return False


def entered(loop: VirtualTime, step: Callable[[], T]) -> T:
    """What `step` returns, which enters the SDK's workflow instance as the running `loop` does.

    The instance is an event loop itself. It takes the place of the running loop and leaves none behind.
    """
    running = asyncio._get_running_loop()
    asyncio._set_running_loop(loop)
    try:
        return step()
    finally:
        asyncio._set_running_loop(running)
