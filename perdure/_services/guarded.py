"""Executes the runs of workflows under two guards that Temporal's SDK lacks.

**One thread at a time.** The SDK interrupts a workflow task that takes longer than two seconds, and evicts its run in
another thread. It does not wait for the first thread to end: a blocking call is not interrupted, and after a freeze of
the machine both go on at once. A task that the first thread still executes loses its turn in the second one. The
eviction then never ends, the worker gets no more tasks of the run, and it does not stop.

**No query instead of a workflow task.** If a worker does not have a run in its cache, a query brings the history of the
run. That may end with events for which a workflow task still waits. The SDK gives them to the code as well, with the
time of the task before: the code goes on, and makes local calls. A replay has the time of the task that waited, and an
update that came with that task acts before all of this. Such a history cannot be replayed, and its run stands still.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, TypeAlias

from temporalio.bridge.proto.workflow_activation import WorkflowActivation
from temporalio.bridge.proto.workflow_completion import WorkflowActivationCompletion
from temporalio.worker import WorkflowInstance, WorkflowInstanceDetails, WorkflowRunner

TASK_WAITS = "a workflow task of this run waits for this worker: query it again in a moment"
"""Why a query is refused."""

_PATIENCE = 1.0
"""Seconds that an activation waits for the one before. The SDK waits for two, and then starts one thread more."""
_NO_EVENTS = ("query_workflow", "remove_from_cache")

_Activate: TypeAlias = Callable[[WorkflowActivation], WorkflowActivationCompletion]


class GuardedRunner(WorkflowRunner):
    """Makes an activation fail while another thread executes the same run, and one that a query makes.

    The SDK tries an eviction again. It answers the query with the failure, and then executes the workflow task that
    waits from the history.

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
        activate = _in_one_thread(_for_workflow_tasks(instance.activate), det.info.workflow_id)
        setattr(instance, "activate", activate)  # noqa: B010 - a method of this one instance
        return instance


def _in_one_thread(activate: _Activate, workflow_id: str) -> _Activate:
    executed = threading.Lock()

    def guarded(act: WorkflowActivation) -> WorkflowActivationCompletion:
        if not executed.acquire(timeout=_PATIENCE):
            raise RuntimeError(f"another thread still executes {workflow_id}, which blocks")
        try:
            return activate(act)
        finally:
            executed.release()

    return guarded


def _for_workflow_tasks(activate: _Activate) -> _Activate:
    """The first activation after a replay has the time of a workflow task that has begun since. One that a query makes
    has the time of the last task in the replay, and more events."""
    replayed: tuple[int, int, int] | None = None

    def guarded(act: WorkflowActivation) -> WorkflowActivationCompletion:
        nonlocal replayed
        before, here = replayed, (act.history_length, act.timestamp.seconds, act.timestamp.nanos)
        replayed = here if act.is_replaying else None
        has_events = any(job.WhichOneof("variant") not in _NO_EVENTS for job in act.jobs)
        if has_events and before is not None and not act.is_replaying and here[1:] == before[1:] and here != before:
            return _refused(act.run_id)
        return activate(act)

    return guarded


def _refused(run_id: str) -> WorkflowActivationCompletion:
    completion = WorkflowActivationCompletion(run_id=run_id)
    completion.failed.failure.message = TASK_WAITS
    completion.failed.failure.application_failure_info.type = "NotNow"
    return completion
