"""The places that a worker process passes: those in Perdure's code, and the borders of each workflow task."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from threading import Lock
from typing import Any

from temporalio.bridge.proto.workflow_activation import WorkflowActivation
from temporalio.bridge.proto.workflow_completion import WorkflowActivationCompletion
from temporalio.worker import WorkerConfig, WorkflowInstance, WorkflowInstanceDetails, WorkflowRunner
from temporalio.workflow import _Definition

from perdure import _faults as faults
from perdure._worker.plugin import PerdurePlugin
from perdure.app import App
from perdure.settings import Settings

_JOBS = {
    "initialize_workflow": "its start",
    "fire_timer": "a timer",
    "signal_workflow": "a signal",
    "do_update": "an update",
    "cancel_workflow": "a cancellation",
}
_COMMANDS = {
    "start_timer": "a timer",
    "complete_workflow_execution": "its end",
    "continue_as_new_workflow_execution": "a new run",
}


class Places:
    """Numbers the visits to each place, so every visit has a name of its own.

    Args:
        visit: called with that name.
    """

    def __init__(self, visit: Callable[[str], None]) -> None:
        self._visit = visit
        self._visits: Counter[str] = Counter()
        self._lock = Lock()

    def reached(self, place: str) -> None:
        """See `perdure._faults`; called in the event loop's thread and in those of workflows."""
        with self._lock:
            self._visits[place] += 1
            times = self._visits[place]
        self._visit(place if times == 1 else f"{place} ({times})")


class WatchedPlugin(PerdurePlugin):
    """Makes the borders of workflow tasks places: a task's decision is reported right after the task's end.

    Args:
        checks: whether each workflow is tried in the sandbox before it runs.
    """

    def __init__(self, app: App, config: Settings, *, checks: bool = True) -> None:
        super().__init__(app, config)
        self._checks = checks

    def configure_worker(self, config: WorkerConfig) -> WorkerConfig:
        """See base class."""
        config = super().configure_worker(config)
        config["workflow_runner"] = WatchedRunner(config["workflow_runner"], self._checks)
        return config


class WatchedRunner(WorkflowRunner):
    """Makes the borders of workflow tasks places."""

    def __init__(self, inner: WorkflowRunner, checks: bool) -> None:
        self._inner = inner
        self._checks = checks

    def prepare_workflow(self, defn: _Definition) -> None:
        if self._checks:
            self._inner.prepare_workflow(defn)

    def set_worker_level_failure_exception_types(self, types: Any) -> None:
        self._inner.set_worker_level_failure_exception_types(types)

    def create_instance(self, det: WorkflowInstanceDetails) -> WorkflowInstance:
        instance = self._inner.create_instance(det)
        activate, ordered = instance.activate, dict[int, str]()

        def watched(act: WorkflowActivation) -> WorkflowActivationCompletion:
            _visit("before the task that receives", _received(act, ordered), act)
            completion = activate(act)
            _visit("after the task that orders", _orders(completion, ordered), act)
            return completion

        setattr(instance, "activate", watched)  # noqa: B010 - a method of this one instance
        return instance


def _visit(place: str, subjects: list[str], act: WorkflowActivation) -> None:
    if subjects and not act.is_replaying:
        faults.point(place, " and ".join(subjects))


def _received(act: WorkflowActivation, ordered: dict[int, str]) -> list[str]:
    received = []
    for job in act.jobs:
        kind = job.WhichOneof("variant")
        if kind == "resolve_activity":
            received.append(ordered.get(job.resolve_activity.seq, "an activity"))
        elif kind in _JOBS:
            received.append(_JOBS[kind])
    return received


def _orders(completion: WorkflowActivationCompletion, ordered: dict[int, str]) -> list[str]:
    orders = []
    for command in completion.successful.commands:
        kind = command.WhichOneof("variant") or ""
        if kind in ("schedule_activity", "schedule_local_activity"):
            activity = getattr(command, kind)
            ordered[activity.seq] = activity.activity_type
            orders.append(activity.activity_type)
        elif kind in _COMMANDS:
            orders.append(_COMMANDS[kind])
    return orders
