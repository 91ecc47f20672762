"""Chooses the runs of a lifecycle that are executed in Temporal's sandbox.

The sandbox imports the lifecycle's module for each run and watches the calls of that run, which takes about a third of
a worker's CPU. A lifecycle that is not deterministic makes the same calls in nearly every run, so the sandbox finds
most errors in a few runs.
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
"""First runs of each lifecycle in each worker process, all of which are executed in the sandbox."""
ONE_IN = 100
"""Part of the other runs; the same ones in each worker, so that a run that fails continues to fail."""


class SampledRunner(WorkflowRunner):
    """Executes some runs in the sandbox, and the others without it.

    Args:
        sandboxed: the runner with the sandbox.
        always: names of lifecycles whose runs are all executed in the sandbox.
    """

    def __init__(self, sandboxed: WorkflowRunner, always: frozenset[str] = frozenset()) -> None:
        self._sandboxed = sandboxed
        self._plain = UnsandboxedWorkflowRunner()
        self._always = set(always)
        self._runs: Counter[str] = Counter()

    def watch(self, lifecycle: str) -> None:
        """Execute all runs of this lifecycle in the sandbox from now on, because its code has failed."""
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
