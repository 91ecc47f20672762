"""The one deadline of all tests: so generous that only a hang meets it, however busy the machine is.

A test waits for what it needs, never for a time. Where a promise is about time, it is compared with what the record or
the same run shows, not with a deadline.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from perdure.errors import DatabaseUnavailable

T = TypeVar("T")

DEADLINE = 300.0
"""Seconds after which a test gives up waiting for something that should come."""


async def until(holds: Callable[[], Any], what: str, *, every: float = 0.02) -> Any:
    """Poll until `holds()` (maybe a coroutine) is true, and return what it gave.

    On a machine that stands still for a moment PostgreSQL ends the statement of a poll, which is then polled again.

    Raises:
        AssertionError: it never was; with `what`.
    """
    end = asyncio.get_running_loop().time() + DEADLINE
    while True:
        unanswered = ""
        try:
            found = holds()
            if asyncio.iscoroutine(found):
                found = await found
        except DatabaseUnavailable as error:
            found, unanswered = None, f" ({error})"
        if found:
            return found
        assert asyncio.get_running_loop().time() < end, f"never came: {what}{unanswered}"
        await asyncio.sleep(every)


async def until_count(count: Callable[[], Awaitable[int]], wanted: int, what: str) -> None:
    """Poll until `count()` is `wanted`: for as long as it changes, since many take a slow machine a long time.

    Raises:
        AssertionError: it has not changed for the whole deadline; with `what`.
    """
    found = -1
    while found != wanted:
        before = found

        async def moved(before: int = before) -> bool:
            nonlocal found
            found = await count()
            return found != before

        await until(moved, f"{what}: {found} of {wanted}", every=0.1)


async def with_time_for(there: Callable[[], Any], attempt: Callable[[float], Awaitable[T]], seconds: float) -> T:
    """What an attempt of so many seconds gives that has come `there` before its time is over. A busy machine needs more
    time to come so far: each new attempt has twice as much."""
    while True:
        given = await attempt(seconds)
        if there():
            return given
        seconds *= 2


async def in_time(awaited: Awaitable[T]) -> T:
    """Await it; fails if it never ends."""
    return await asyncio.wait_for(awaited, DEADLINE)
