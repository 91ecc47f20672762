"""Activates a run of a workflow in one thread at a time.

Temporal's SDK interrupts a workflow task that takes longer than two seconds, and evicts its run in another thread. It
does not wait for the first thread to end: a blocking call is not interrupted, and after a freeze of the machine both go
on at once. A task that the first thread still executes loses its turn in the second one. The eviction then never ends,
the worker gets no more tasks of the run, and it does not stop.
"""

from __future__ import annotations

import threading
from typing import Any

from temporalio.bridge.proto.workflow_activation import WorkflowActivation
from temporalio.bridge.proto.workflow_completion import WorkflowActivationCompletion
from temporalio.worker import WorkflowInstance, WorkflowInstanceDetails, WorkflowRunner

_PATIENCE = 1.0
"""Seconds that an activation waits for the one before. The SDK waits for two, and then starts one thread more."""


class SerialRunner(WorkflowRunner):
    """Makes an activation fail while another thread executes the same run. The SDK tries an eviction again.

    Args:
        inner: executes the workflows.
    """

    def __init__(self, inner: WorkflowRunner) -> None:
        self._inner = inner

    def prepare_workflow(self, defn: Any) -> None:
        """See base class."""
        self._inner.prepare_workflow(defn)

    def set_worker_level_failure_exception_types(self, types: Any) -> None:
        """See base class."""
        self._inner.set_worker_level_failure_exception_types(types)

    def create_instance(self, det: WorkflowInstanceDetails) -> WorkflowInstance:
        """See base class."""
        instance = self._inner.create_instance(det)
        activate, executed = instance.activate, threading.Lock()

        def serially(act: WorkflowActivation) -> WorkflowActivationCompletion:
            if not executed.acquire(timeout=_PATIENCE):
                raise RuntimeError(f"another thread still executes {det.info.workflow_id}, which blocks")
            try:
                return activate(act)
            finally:
                executed.release()

        setattr(instance, "activate", serially)  # noqa: B010 - a method of this one instance
        return instance
