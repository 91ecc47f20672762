"""Ways to leave the author's code from inside, and how the conductor awaits that code.

No exception travels through the author's `run`: a branch that has to leave stops where it is, and the conductor
continues without it. So `asyncio.gather`, task groups and time-outs around the calls make no difference.
"""

from __future__ import annotations

import asyncio
import sys
import traceback
from collections.abc import Callable, Coroutine
from contextvars import ContextVar
from pathlib import PurePath
from typing import Any, ClassVar, NoReturn, TypeVar

from temporalio import workflow
from temporalio.exceptions import ApplicationError

from perdure._workflow.arriving import note_branch
from perdure.errors import DeclarationError

T = TypeVar("T")

_NOT_OF_THE_AUTHOR = ("perdure", "temporalio", *sys.stdlib_module_names)
STAYS_LEFT = "perdure: a branch that is left continues for no cancellation"


class Leave(BaseException):
    """Leaves the author's code from inside; not an `Exception`, so that no handler there swallows it.

    Attributes:
        rank: if there are several reasons, the one with the highest rank counts.
    """

    rank: ClassVar[int]


class ContinueAsNew(Leave):
    """The history is long: continue in a new run."""

    rank = 0


class Cancelled(Leave):
    """The end was requested."""

    rank = 1


class Overtaken(Leave):
    """The database has a final state, or a newer generation."""

    rank = 3

    def __init__(self, state: str | None, generation: int = 0) -> None:
        super().__init__(state)
        self.state = state
        self.generation = generation


class Part:
    """A coroutine of the author's that the conductor awaits, with all tasks that it creates: `run` or `cancelling`.

    Args:
        may_end: returns whether the end was requested. A `CancelledError` in the code then means that end.

    Attributes:
        reason: why the part was left; None while it runs.
        over: whether the conductor has continued without the part, whose branches then begin nothing more.
    """

    def __init__(self, may_end: Callable[[], bool] = lambda: False) -> None:
        self._may_end = may_end
        self.reason: Leave | None = None
        self.over = False
        self._task: asyncio.Future[None] | None = None

    def leave(self, reason: Leave) -> None:
        """Note why a branch of the part was left."""
        if self.reason is None or reason.rank > self.reason.rank:
            self.reason = reason

    async def attend(self, code: Coroutine[Any, Any, None]) -> None:
        """Await `code` until it ends, or one of its branches leaves.

        Raises:
            Leave: the reason.
            Exception: what `code` raised.
        """

        async def inside() -> None:
            _PART.set(self)
            note_branch()
            await code

        task = self._task = asyncio.create_task(inside())
        await until(lambda: task.done() or self.reason is not None)
        self.check()

    def end(self) -> None:
        """Note that the conductor continues without the part."""
        self.over = True

    def check(self) -> None:
        """Raise the exception of `code`, if it has ended, or else the reason why it was left."""
        if self._task is not None and self._task.done():
            if self._task.cancelled():
                self.leave(Cancelled() if self._may_end() else reason_of(asyncio.CancelledError()))
            elif error := self._task.exception():
                self.leave(reason_of(error))
        if self.reason is not None and not self._returned():
            raise self.reason

    def _returned(self) -> bool:
        task = self._task
        return task is not None and task.done() and not task.cancelled() and task.exception() is None


_PART: ContextVar[Part | None] = ContextVar("perdure_part", default=None)


def in_handler() -> bool:
    """Whether the present code is a message handler of the author's, and not `run` or `cancelling`."""
    return _PART.get() is None


async def inside(begin: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Begin an operation for the author's code, and await it. If the operation leaves, that branch of the code stops
    here.

    In a handler the reason is raised, because no conductor awaits the handler.
    """
    part = _PART.get()
    if part is not None:
        note_branch()
        if part.over:
            await for_ever()
    try:
        return await begin()
    except Leave as reason:
        if part is None:
            raise
        part.leave(reason)
    await for_ever()


async def for_ever() -> NoReturn:
    """Wait for ever, although a time-out or a task group around the call may cancel it: code after the call must not
    run, not even its `finally`."""
    while True:
        try:
            await until(lambda: False)
        except asyncio.CancelledError:
            if not workflow.patched(STAYS_LEFT):
                raise


async def until(condition: Callable[[], bool], timeout: float | None = None, summary: str | None = None) -> bool:
    """Wait until `condition()` holds; False if `timeout` seconds went by first.

    A cancellation of the workflow cancels one task, but the SDK raises `CancelledError` in every wait that was under
    way then, when the wait is over. Only a cancellation of the waiting task counts here.
    """
    held = False

    def holds() -> bool:
        nonlocal held
        held = condition()
        return held

    try:
        await workflow.wait_condition(holds, timeout=timeout, timeout_summary=summary)
    except TimeoutError:
        return False
    except asyncio.CancelledError:
        task = asyncio.current_task()
        if task is None or task.cancelling():
            raise
    return held


async def to_its_end(operation: Coroutine[Any, Any, T], withdraw: Callable[[], None] = lambda: None) -> T:
    """Run `operation` in a task of its own, and return its result.

    If the awaiting task is cancelled (`asyncio.timeout`, a task group, `cancel()`), `withdraw` is called, and the
    cancellation continues after `operation` has ended. So no call under way is interrupted.
    """
    task = asyncio.create_task(operation)
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await workflow.wait([task])
        except asyncio.CancelledError as error:
            cancelled = error
            withdraw()
    if cancelled is not None and (task.cancelled() or task.exception() is None):
        raise cancelled
    return task.result()


def reason_of(error: BaseException) -> Leave:
    """The reason with the highest rank, if `error` is a reason or a group of reasons.

    Raises:
        Exception: `error` is, or contains, another exception.
    """
    if isinstance(error, Leave):
        return error
    if isinstance(error, BaseExceptionGroup):
        reasons, others = error.split(Leave)
        if others is None and reasons is not None:
            return max((reason_of(each) for each in reasons.exceptions), key=lambda reason: reason.rank)
        error = others or error
    if isinstance(error, TimeoutError):
        # The SDK would close the workflow as failed, so that no corrected code could continue it.
        raise DeclarationError("the lifecycle's code raised a TimeoutError that it did not catch") from error
    if isinstance(error, Exception):
        raise error
    if type(error).__name__ == "_InterruptDeadlockError":  # the SDK's, which is not public
        raise DeclarationError(
            f"Temporal interrupted the lifecycle's code{_place(error)}, which ran too long without waiting: it loops "
            "for ever, or makes a blocking call"
        ) from error
    # The SDK does not handle it: the workflow would stand still without a sign.
    raise DeclarationError(f"the lifecycle's code raised {type(error).__name__}, which is no Exception") from error


def _place(error: BaseException) -> str:
    """The author's line in the traceback."""
    lines = [
        f" at {PurePath(frame.f_code.co_filename).name}:{line}"
        for frame, line in traceback.walk_tb(error.__traceback__)
        if str(frame.f_globals.get("__name__")).partition(".")[0] not in _NOT_OF_THE_AUTHOR
    ]
    return lines[-1] if lines else ""


def fail(message: str, kind: str) -> NoReturn:
    """Fail the workflow: no later deploy can correct this start."""
    raise ApplicationError(message, type=kind, non_retryable=True)
