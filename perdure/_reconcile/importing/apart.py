"""Many things in one statement, and each by itself where PostgreSQL refuses that: one bad row harms no other."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

import asyncpg

T = TypeVar("T")
U = TypeVar("U")


async def apart(
    items: Sequence[T],
    act: Callable[[Sequence[T]], Awaitable[list[U]]],
    refuse: Callable[[T], Callable[[Exception], None]],
) -> list[U]:
    """What `act` gives for all items; where PostgreSQL refuses, for each half, until one is refused alone.

    Raises:
        asyncpg.PostgresError: where it is not for what is in them: the server fails.
    """
    if not items:
        return []
    try:
        return await act(items)
    except asyncpg.PostgresError as error:
        if (error.sqlstate or "").startswith(("08", "53", "57", "58")):
            raise
        if len(items) == 1:
            refuse(items[0])(error)
            return []
    half = len(items) // 2
    return [*await apart(items[:half], act, refuse), *await apart(items[half:], act, refuse)]
