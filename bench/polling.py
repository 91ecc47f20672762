"""Waits for a condition of another process, which sends no notification: by polling."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable


async def eventually(
    met: Callable[[], bool | Awaitable[bool]], what: str, *, patience: float = 600.0, every: float = 0.05
) -> float:
    """Wait until `met`. Returns the seconds that it took.

    Args:
        every: seconds between two polls.

    Raises:
        TimeoutError: after `patience` seconds; names `what`.
    """
    begun = time.monotonic()
    while True:
        answer = met()
        if answer if isinstance(answer, bool) else await answer:
            return time.monotonic() - begun
        if time.monotonic() - begun > patience:
            raise TimeoutError(f"not within {patience:.0f} s: {what}")
        await asyncio.sleep(every)
