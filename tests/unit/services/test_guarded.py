"""What the runner of workflows executes, and what it refuses."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any, cast

import pytest
from google.protobuf.timestamp_pb2 import Timestamp
from temporalio.bridge.proto.workflow_activation import (
    FireTimer,
    QueryWorkflow,
    RemoveFromCache,
    WorkflowActivation,
    WorkflowActivationJob,
)
from temporalio.bridge.proto.workflow_completion import WorkflowActivationCompletion
from temporalio.worker import UnsandboxedWorkflowRunner, WorkflowInstance, WorkflowInstanceDetails

from perdure._services import guarded
from perdure._services.guarded import TASK_WAITS, GuardedRunner

TIMER = WorkflowActivationJob(fire_timer=FireTimer())
QUERY = WorkflowActivationJob(query_workflow=QueryWorkflow())
EVICTION = WorkflowActivationJob(remove_from_cache=RemoveFromCache())


class Inner(UnsandboxedWorkflowRunner):
    """Executes nothing, and notes what it was given."""

    def __init__(self) -> None:
        super().__init__()
        self.executed: list[WorkflowActivation] = []
        self.began, self.may_end = threading.Event(), threading.Event()
        self.may_end.set()

    def create_instance(self, det: WorkflowInstanceDetails) -> WorkflowInstance:
        instance: Any = SimpleNamespace(activate=self._activate)
        return cast(WorkflowInstance, instance)

    def _activate(self, act: WorkflowActivation) -> WorkflowActivationCompletion:
        self.executed.append(act)
        self.began.set()
        assert self.may_end.wait(60)
        return WorkflowActivationCompletion(run_id=act.run_id)


@pytest.fixture
def inner() -> Inner:
    return Inner()


@pytest.fixture
def instance(inner: Inner) -> WorkflowInstance:
    return GuardedRunner(inner).create_instance(
        cast(Any, SimpleNamespace(info=SimpleNamespace(workflow_id="booking/a")))
    )


def activation(at: int, length: int, *jobs: WorkflowActivationJob, replays: bool = False) -> WorkflowActivation:
    """One at the time of a workflow task, in seconds, with so many events."""
    timestamp = Timestamp(seconds=at, nanos=5)
    return WorkflowActivation(run_id="r", timestamp=timestamp, history_length=length, jobs=jobs, is_replaying=replays)


def test_events_that_a_query_brings_are_not_executed(inner: Inner, instance: WorkflowInstance) -> None:
    replayed = activation(1, 3, TIMER, replays=True)
    instance.activate(replayed)
    completion = instance.activate(activation(1, 8, TIMER))
    assert completion.failed.failure.message == TASK_WAITS
    assert inner.executed == [replayed]


@pytest.mark.parametrize(
    "then",
    [
        [activation(2, 8, TIMER)],  # a workflow task
        [activation(2, 8, TIMER), activation(2, 8, TIMER), activation(2, 12, TIMER)],  # another one in the same instant
        [activation(1, 3, TIMER)],  # the end of a local activity in the last task of the replay
        [activation(1, 8, QUERY), activation(1, 8, EVICTION)],
        [activation(1, 3, QUERY), activation(2, 8, TIMER)],
    ],
    ids=["task", "tasks", "local activity", "query alone", "query, task"],
)
def test_all_else_is_executed(inner: Inner, instance: WorkflowInstance, then: list[WorkflowActivation]) -> None:
    for act in [activation(0, 1, TIMER, replays=True), activation(1, 3, TIMER, replays=True), *then]:
        assert not instance.activate(act).HasField("failed")
    assert inner.executed[2:] == then


def test_no_second_thread_executes_a_run(
    inner: Inner, instance: WorkflowInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(guarded, "_PATIENCE", 0.01)
    inner.may_end.clear()
    blocked = threading.Thread(target=instance.activate, args=(activation(1, 3, TIMER),))
    blocked.start()
    assert inner.began.wait(60)
    with pytest.raises(RuntimeError, match="another thread still executes booking/a, which blocks"):
        instance.activate(activation(1, 3, EVICTION))
    inner.may_end.set()
    blocked.join(60)
    instance.activate(activation(1, 3, EVICTION))
    assert len(inner.executed) == 2
