"""Executes many items in one statement, and splits them if PostgreSQL refuses: one bad row affects no other."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

import asyncpg

from perdure._store.postgres import is_of_server

T = TypeVar("T")
U = TypeVar("U")


async def apart(
    items: Sequence[T],
    act: Callable[[Sequence[T]], Awaitable[list[U]]],
    refuse: Callable[[T], Callable[[Exception], None]],
) -> list[U]:
    """The results of `act` for all items. If PostgreSQL refuses, each half is tried, until one item is refused alone.

    Raises:
        asyncpg.PostgresError: the server fails, and the content of the items is not the cause.
    """
    if not items:
        return []
    try:
        return await act(items)
    except asyncpg.PostgresError as error:
        if is_of_server(error):
            raise
        if len(items) == 1:
            refuse(items[0])(error)
            return []
    half = len(items) // 2
    return [*await apart(items[:half], act, refuse), *await apart(items[half:], act, refuse)]
