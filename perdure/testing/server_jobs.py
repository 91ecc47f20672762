"""The jobs that the virtual server sends to the SDK's workflow instance, and how an instance is made and entered.

Imports of the SDK that are not public API stand here and in `server_activities.py` only; a canary test watches
the shape of each.
"""

from __future__ import annotations

import asyncio
import contextvars
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from typing import Any, TypeVar

import temporalio.workflow
from temporalio.api.common.v1 import Payload, Payloads
from temporalio.api.failure.v1 import Failure
from temporalio.bridge.proto.workflow_activation import InitializeWorkflow as InitializeWorkflow
from temporalio.bridge.proto.workflow_activation import WorkflowActivation as WorkflowActivation
from temporalio.bridge.proto.workflow_activation import WorkflowActivationJob as WorkflowActivationJob
from temporalio.bridge.proto.workflow_commands import (
    ContinueAsNewWorkflowExecution as ContinueAsNewWorkflowExecution,
)
from temporalio.bridge.proto.workflow_commands import QueryResult as QueryResult
from temporalio.bridge.proto.workflow_commands import ScheduleActivity as ScheduleActivity
from temporalio.bridge.proto.workflow_commands import ScheduleLocalActivity as ScheduleLocalActivity
from temporalio.bridge.proto.workflow_commands import StartTimer as StartTimer
from temporalio.bridge.proto.workflow_commands import UpdateResponse as UpdateResponse
from temporalio.bridge.proto.workflow_commands import WorkflowCommand as WorkflowCommand
from temporalio.common import MetricMeter, Priority
from temporalio.converter import DataConverter, decode_search_attributes, decode_typed_search_attributes
from temporalio.exceptions import FailureError
from temporalio.worker import Interceptor, WorkflowInterceptorClassInput
from temporalio.worker._workflow_instance import (
    UnsandboxedWorkflowRunner,
    WorkflowInstance,
    WorkflowInstanceDetails,
)

from perdure._workflow.waiter import RECORDED_FIRST
from perdure.testing.server_watch import watched

_T = TypeVar("_T")

_NAMES_FIRST_RUN_OF_RESET = "original_execution_run_id" in {each.name for each in fields(temporalio.workflow.Info)}
"""Whether the SDK is 1.34 or newer."""


@dataclass(frozen=True)
class Host:
    """What all runs of one virtual workflow share: the class and how a worker would have been set up."""

    workflow_class: type
    data_converter: DataConverter
    interceptors: Sequence[Interceptor]
    failure_exception_types: Sequence[type[BaseException]]
    namespace: str
    task_queue: str

    @property
    def workflow_type(self) -> str:
        """The registered name; empty for a dynamic workflow."""
        return temporalio.workflow._Definition.must_from_class(self.workflow_class).name or ""


class WorkflowTaskFailed(Exception):
    """Workflow code raised what does not fail a workflow: a server would retry its task for ever.

    The message ends with the traceback; `__cause__` is the exception as the SDK reports it, most often an
    `ApplicationError` whose `type` names the original class.
    """


class Run:
    """One run: the SDK's instance, and a history that is counted but not kept. Needs a running loop."""

    def __init__(self, host: Host, run_id: str, at: datetime, init: InitializeWorkflow, suggest_at: int) -> None:
        self._host, self._run_id, self._suggest_at = host, run_id, suggest_at
        self._instance = create_instance(host, run_id, at, init)
        self._length, self._bytes = 0, 0
        self._unread = 1  # events since the last workflow task started; the first one is the workflow's start

    async def activate(
        self, jobs: Sequence[WorkflowActivationJob], events: int | None, now: datetime, *, suggest: bool = False
    ) -> Sequence[WorkflowCommand]:
        """Hand over `jobs` and return the workflow's commands. Raises `WorkflowTaskFailed` and `RunawayWorkflow`.

        `events` is how many events brought the jobs; `None` if they belong to the workflow task before.
        `suggest` to continue as new, however short the history is.
        """
        before = self._length, self._unread
        if events is not None:
            self._length += self._unread + events + 2  # and its task scheduled and started
            self._unread = 1  # that it completes
        for job in jobs:
            if job.HasField("signal_workflow"):
                job.signal_workflow.originating_event_id = self._length - 2
        activation = WorkflowActivation(
            run_id=self._run_id,
            jobs=jobs,
            history_length=self._length,
            history_size_bytes=self._bytes,
            continue_as_new_suggested=suggest or self._length >= self._suggest_at,
        )
        activation.timestamp.FromDatetime(now)
        completion = await _outside_any_task(lambda: self._instance.activate(activation))
        if completion.HasField("failed"):
            raise self._task_failed(completion.failed.failure)
        commands = completion.successful.commands
        self._unread += sum(_events_of(command) for command in commands)
        if _refused(jobs, commands):
            self._length, self._unread = before  # a server drops the workflow task of a refused update
        self._bytes += activation.ByteSize() + completion.ByteSize()
        return commands

    async def evict(self, now: datetime) -> None:
        """Have the instance end its tasks, as if its worker wanted the memory back."""
        activation = WorkflowActivation(run_id=self._run_id)
        activation.timestamp.FromDatetime(now)
        activation.jobs.add().remove_from_cache.message = "the rehearsal is over"
        await _outside_any_task(lambda: self._instance.activate(activation))

    def _task_failed(self, failure: Failure) -> WorkflowTaskFailed:
        info = self._instance.get_info()
        error = failure_of(failure, self._host.data_converter)
        story = [f"workflow task of {info.workflow_type} {info.workflow_id!r} failed: {error}"]
        cause = error
        while isinstance(cause, FailureError) and cause.failure:
            story.append(cause.failure.stack_trace)
            if (deeper := cause.__cause__) is None:
                break
            cause = deeper
            story.append(f"caused by {cause}")
        raised = WorkflowTaskFailed("\n".join(story))
        raised.__cause__ = error
        return raised


def create_instance(
    host: Host, run_id: str, at: datetime, init: InitializeWorkflow, *, loses_tasks: bool = False
) -> WorkflowInstance:
    """The SDK's own instance of a workflow run.

    Args:
        loses_tasks: a workflow task may be lost before its updates stand in the history.
    """
    extern: dict[str, Callable[..., Any]] = {}
    made = (i.workflow_interceptor_class(WorkflowInterceptorClassInput(extern)) for i in host.interceptors)
    classes = [c for c in made if c]
    extern["__temporal_get_metric_meter"] = lambda: MetricMeter.noop
    extern["__temporal_assert_local_activity_valid"] = lambda _name: None
    return UnsandboxedWorkflowRunner().create_instance(
        WorkflowInstanceDetails(
            # One for all runs: each keeps type adapters, which take longer to make than most payloads to read.
            payload_converter_factory=lambda: host.data_converter.payload_converter,
            failure_converter_class=host.data_converter.failure_converter_class,
            interceptor_classes=classes,
            defn=temporalio.workflow._Definition.must_from_class(host.workflow_class),
            info=_info(host, run_id, at, init),
            randomness_seed=init.randomness_seed,
            extern_functions=extern,
            disable_eager_activity_execution=False,
            worker_level_failure_exception_types=host.failure_exception_types,
            # Where no task is lost, an update is on record as it comes.
            patch_activation_callback=lambda patch: loses_tasks or patch.patch_id != RECORDED_FIRST,
            last_completion_result=Payloads(),
            last_failure=None,
        )
    )


async def _outside_any_task(step: Callable[[], _T]) -> _T:
    """Run `step` on this thread between two tasks of the running loop, and hand back what it returns.

    The instance is an event loop itself: while it runs it takes the place of the running loop and leaves
    none behind, so ours is put back. Outside of a task, because Python 3.14 lets no loop step a task inside
    another one's; and in an empty context, because a worker's thread would bring none either.
    """
    loop = asyncio.get_running_loop()
    done: asyncio.Future[_T] = loop.create_future()

    def enter() -> None:
        if done.cancelled():
            return
        try:
            done.set_result(watched(step))
        except BaseException as error:
            done.set_exception(error)
        finally:
            asyncio._set_running_loop(loop)

    loop.call_soon(enter, context=contextvars.Context())
    return await done


def init_job(host: Host, workflow_id: str, run_ids: Sequence[str], seed: int, started: datetime) -> InitializeWorkflow:
    """The job that starts the last of `run_ids`; arguments, memo and headers are still to be filled in."""
    job = InitializeWorkflow(
        workflow_type=host.workflow_type,
        workflow_id=workflow_id,
        first_execution_run_id=run_ids[0],
        original_execution_run_id=run_ids[-1],
        continued_from_execution_run_id=run_ids[-2] if len(run_ids) > 1 else "",
        randomness_seed=uuid.uuid5(uuid.UUID(run_ids[-1]), str(seed)).int >> 64,
        attempt=1,
    )
    job.workflow_task_timeout.FromSeconds(10)
    job.start_time.FromDatetime(started)
    return job


def failure_of(failure: Failure, converter: DataConverter) -> BaseException:
    """The exception that a stored failure stands for."""
    return converter.failure_converter.from_failure(failure, converter.payload_converter)


def _events_of(command: WorkflowCommand) -> int:
    # a patch is written as a marker and as a search attribute; a local activity as a marker, later on
    return {"respond_to_query": 0, "set_patch_marker": 2}.get(command.WhichOneof("variant") or "", 1)


def _refused(jobs: Sequence[WorkflowActivationJob], commands: Sequence[WorkflowCommand]) -> bool:
    updates = all(job.HasField("do_update") for job in jobs)
    return updates and all(command.update_response.HasField("rejected") for command in commands)


def is_null(payload: Payload) -> bool:
    """Whether the payload stands for `None`, which in a memo means that the key is removed."""
    return payload.metadata.get("encoding") == b"binary/null"


def _info(host: Host, run_id: str, at: datetime, init: InitializeWorkflow) -> temporalio.workflow.Info:
    return temporalio.workflow.Info(
        attempt=init.attempt,
        continued_run_id=init.continued_from_execution_run_id or None,
        cron_schedule=None,
        execution_timeout=None,
        first_execution_run_id=init.first_execution_run_id,
        headers=dict(init.headers),
        namespace=host.namespace,
        parent=None,
        root=None,
        priority=Priority.default,
        raw_memo=dict(init.memo.fields),
        retry_policy=None,
        run_id=run_id,
        run_timeout=None,
        search_attributes=decode_search_attributes(init.search_attributes),
        start_time=at,
        task_queue=host.task_queue,
        task_timeout=init.workflow_task_timeout.ToTimedelta(),
        typed_search_attributes=decode_typed_search_attributes(init.search_attributes),
        workflow_id=init.workflow_id,
        workflow_start_time=init.start_time.ToDatetime(UTC),
        workflow_type=init.workflow_type,
        **({"original_execution_run_id": init.original_execution_run_id} if _NAMES_FIRST_RUN_OF_RESET else {}),
    )
