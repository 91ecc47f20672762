"""The earliest time at which an inline call can have been made first, at each point of the author's code.

A workflow task that is lost leaves no trace of the inline calls that it made, and `workflow.now()` is the time of the
task's latest attempt. The last wait that the code has passed bounds the time of the first call: the wait ended
by an event of the history, and no attempt of a task passes a wait before its event. Inline calls are no such bound: a
lost attempt may have continued at once at a call where the attempt that counts had to wait.

A timer's time is known. Other events, such as a message, have no time here, but came after the workflow task before.
After a restore, each open run has such a task, since all of them are delivered again.
"""

from __future__ import annotations

from contextvars import ContextVar
from datetime import datetime

_PASSED: ContextVar[datetime | None] = ContextVar("perdure_passed", default=None)


def passed(at: datetime) -> None:
    """Note that the present code has waited for an event of the history that came at `at`, or later."""
    before = _PASSED.get()
    _PASSED.set(at if before is None else max(before, at))


def earliest_call() -> datetime | None:
    """No inline call at this point of the code was made before that time; None = the code has
    not waited yet."""
    return _PASSED.get()
