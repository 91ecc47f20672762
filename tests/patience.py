"""Workers of tests let a workflow task take its time.

The SDK interrupts one after two seconds, wherever its thread then is, and a stalled machine needs longer for any. The
interrupted task runs again, and what is counted is counted twice.
"""

from __future__ import annotations

from typing import Any

from temporalio.worker import _workflow

from tests.deadline import DEADLINE

_usual = _workflow._WorkflowWorker.__init__


def be_patient() -> None:
    """Let all workers and replayers of this process interrupt a workflow task only at the deadline of the tests."""
    _workflow._WorkflowWorker.__init__ = _patient  # type: ignore[method-assign]


def _patient(self: _workflow._WorkflowWorker, **given: Any) -> None:
    _usual(self, **given)
    assert self._deadlock_timeout_seconds == 2, "the SDK has another name or time for it"
    self._deadlock_timeout_seconds = int(DEADLINE)
