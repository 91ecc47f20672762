"""What those who are not under test meet when servers go away, and how they go on."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

import asyncpg
from temporalio.client import WorkflowUpdateFailedError, WorkflowUpdateRPCTimeoutOrCancelledError
from temporalio.service import RPCError

from perdure.errors import AlreadyFinished, NotNow, PerdureError

T = TypeVar("T")

EXPECTED_ERRORS = (
    asyncpg.PostgresError,
    asyncpg.InterfaceError,
    asyncpg.InternalClientError,
    OSError,
    TimeoutError,
    RPCError,
    WorkflowUpdateFailedError,
    WorkflowUpdateRPCTimeoutOrCancelledError,
    PerdureError,
)


async def insist(act: Callable[[], Awaitable[T]], *, every: float = 0.1) -> T:
    """Do it again and again until no server is in the way."""
    while True:
        try:
            return await act()
        except EXPECTED_ERRORS:
            _leave_if_cancelled()
            await asyncio.sleep(every)


async def failure_of(act: Callable[[], Awaitable[object]]) -> Exception | None:
    """Do it once; what was in the way, or None."""
    try:
        await act()
    except EXPECTED_ERRORS as error:
        _leave_if_cancelled()
        return error
    return None


async def answered(ask: Callable[[], Awaitable[object]], *, every: float = 0.5) -> Exception | None:
    """Ask again until there is an answer, as one has to: a question without one may have been acted on in part.

    Returns None for yes, or the reason of a no.
    """
    while True:
        error = await failure_of(ask)
        if error is None or isinstance(error, (NotNow, AlreadyFinished)):
            return error
        await asyncio.sleep(every)


def _leave_if_cancelled() -> None:
    """The SDK tells of a cancelled update as of a time-out: whoever goes on from that would never end."""
    task = asyncio.current_task()
    if task is not None and task.cancelling():
        raise asyncio.CancelledError
