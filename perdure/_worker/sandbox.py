"""Which runs of a lifecycle are executed in Temporal's sandbox.

The sandbox imports the lifecycle's module for each run and watches what that run calls: about a third of a worker's
CPU. A lifecycle that is not deterministic calls the same things in nearly every run, so most of what the sandbox finds
it finds in a few.
"""

from __future__ import annotations

import zlib
from collections import Counter
from typing import Any

from temporalio.worker import (
    UnsandboxedWorkflowRunner,
    WorkflowInstance,
    WorkflowInstanceDetails,
    WorkflowRunner,
)

FIRST = 10
"""Runs of each lifecycle that each worker process executes in the sandbox, whatever they are."""
ONE_IN = 100
"""Of the others; the same ones in each worker, so that a run that fails goes on failing."""


class SampledRunner(WorkflowRunner):
    """Executes some runs in the sandbox, and the others without it.

    Args:
        sandboxed: for those.
        always: names of lifecycles whose runs are all executed in the sandbox.
    """

    def __init__(self, sandboxed: WorkflowRunner, always: frozenset[str] = frozenset()) -> None:
        self._sandboxed = sandboxed
        self._plain = UnsandboxedWorkflowRunner()
        self._always = set(always)
        self._runs: Counter[str] = Counter()

    def watch(self, lifecycle: str) -> None:
        """Execute all runs of this lifecycle in the sandbox from now on: its code has failed."""
        self._always.add(lifecycle)

    def prepare_workflow(self, defn: Any) -> None:
        """See base class."""
        self._sandboxed.prepare_workflow(defn)
        self._plain.prepare_workflow(defn)

    def create_instance(self, det: WorkflowInstanceDetails) -> WorkflowInstance:
        """See base class."""
        return (self._sandboxed if self._is_watched(det) else self._plain).create_instance(det)

    def set_worker_level_failure_exception_types(self, types: Any) -> None:
        """See base class."""
        self._sandboxed.set_worker_level_failure_exception_types(types)
        self._plain.set_worker_level_failure_exception_types(types)

    def _is_watched(self, det: WorkflowInstanceDetails) -> bool:
        lifecycle = det.info.workflow_type
        self._runs[lifecycle] += 1
        if lifecycle in self._always or self._runs[lifecycle] <= FIRST:
            return True
        return zlib.crc32(det.info.run_id.encode()) % ONE_IN == 0
