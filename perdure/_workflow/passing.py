"""The earliest time at which an inline call can have been made first, at each point of the author's code.

A workflow task that is lost leaves no trace of the inline calls that it made, and `workflow.now()` is the time of the
task's latest attempt. The last wait that the code has passed bounds the time of the first call: the wait ended
by an event of the history, and no attempt of a task passes a wait before its event. Inline calls are no such bound: a
lost attempt may have continued at once at a call where the attempt that counts had to wait.

A timer's time is known. A message came after the relay has read it, and any other event after the workflow task before.
If an activity or a timer of another branch ends in one task with a message, the message does not bound the time: a lost
attempt of the task may have come before the message. A branch that another one lets continue after an inline call or a
write is bounded by what that other one has waited for. Other waits of the author's code, such as `asyncio.sleep` in a
handler, are not noted. The handler of an update is not bounded by that update: the history holds no update of a lost
task, and its sender sends it again.
"""

from __future__ import annotations

from contextvars import ContextVar
from datetime import datetime
from typing import TypeVar

from temporalio import workflow

T = TypeVar("T")

_PASSED: ContextVar[datetime | None] = ContextVar("perdure_passed", default=None)


class Events:
    """The earliest time at which the events of the present workflow task can have come."""

    def __init__(self) -> None:
        self._task = 0
        """Length of the history at the begin of the present task."""
        self._now = self._task_before = workflow.info().workflow_start_time
        self._first: datetime | None = None
        """The earliest time of the events that have continued the code in this task, as far as they have been noted."""
        self._taken: datetime | None = None

    def look(self) -> None:
        """Note that the code continues."""
        task = workflow.info().get_current_history_length()
        if task != self._task:
            self._task, self._task_before, self._first = task, self._now, None
        self._now = workflow.now()

    def takes(self, at: datetime | None) -> None:
        """Note that the next event is a message that came after `at`."""
        self._taken = at

    def came(self) -> datetime:
        """Note that an event calls a handler. Returns the earliest time at which it came."""
        self.look()
        at, self._taken = max(self._taken or self._task_before, self._task_before), None
        self._first = at if self._first is None else min(at, self._first)
        return at

    def resolved(self) -> None:
        """Note that a timer or an activity has continued the code. The calls of handlers come first in a task."""
        self.look()
        self._first = min(self._first or self._task_before, self._task_before)

    def went_on(self) -> None:
        """Note that a branch continues after a call or a write, and may let others continue. If it was inline, a lost
        attempt of a task may have passed it at once, and the others with it."""
        self.look()
        self._first = min(earliest_call() or workflow.info().workflow_start_time, self.earliest())

    async def next_task(self, why: str) -> None:
        """Wait for the next workflow task; `why` is shown in the history. A task that is lost does not pass this."""
        await workflow.sleep(0.001, summary=why)
        self.resolved()

    def of(self, activity: workflow.ActivityHandle[T]) -> workflow.ActivityHandle[T]:
        """Note when `activity` continues the code. Returns it."""
        activity.add_done_callback(lambda _: self.resolved())
        return activity

    def earliest(self) -> datetime:
        """No event of this task that ends a wait came before that time."""
        self.look()
        return self._first or self._task_before


def passed(at: datetime) -> None:
    """Note that the present code has waited for an event of the history that came at `at`, or later."""
    before = _PASSED.get()
    _PASSED.set(at if before is None else max(before, at))


def earliest_call() -> datetime | None:
    """No inline call at this point of the code was made before that time; None = the code has
    not waited yet."""
    return _PASSED.get()
