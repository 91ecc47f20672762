"""What Perdure and Temporal's SDK do about a slow machine, they do not do in tests: a busy one would fail these.

The SDK interrupts a workflow task after two seconds, wherever its thread then is; the task runs again, and what is
counted is counted twice. Perdure says that it waits for a server, and there is a line more than is expected.
"""

from __future__ import annotations

from typing import Any

from temporalio.worker import _workflow

from perdure import logs
from tests.deadline import DEADLINE

_usual = _workflow._WorkflowWorker.__init__


def be_patient() -> None:
    """Let this process do either only at the deadline of the tests."""
    logs.LONG = DEADLINE
    _workflow._WorkflowWorker.__init__ = _patient  # type: ignore[method-assign]


def _patient(self: _workflow._WorkflowWorker, **given: Any) -> None:
    _usual(self, **given)
    assert self._deadlock_timeout_seconds == 2, "the SDK has another name or time for it"
    self._deadlock_timeout_seconds = int(DEADLINE)
