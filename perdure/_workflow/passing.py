"""The earliest time at which an inline call can have been made first, at each point of the author's code.

A workflow task that is lost leaves no trace of the inline calls that it made, and `workflow.now()` is the time of the
task's latest attempt. What bounds the time of the first call is the last wait that the code has passed: it ended by an
event of the history, and no attempt of a task comes past a wait before its event. Inline calls are no such bound: where
the attempt that counts had to wait, an attempt that was lost may have gone on at once.

Of a message nothing here says when it was delivered: what is called right after one counts from the attempt of the task
that is under way.
"""

from __future__ import annotations

from contextvars import ContextVar
from datetime import datetime

_PASSED: ContextVar[datetime | None] = ContextVar("perdure_passed", default=None)


def passed(at: datetime) -> None:
    """The code that runs here has waited for an event of the history that came at `at`, or later."""
    before = _PASSED.get()
    _PASSED.set(at if before is None else max(before, at))


def earliest_call() -> datetime | None:
    """No inline call at this point of the code was made before that time; None = it has waited for nothing yet."""
    return _PASSED.get()
