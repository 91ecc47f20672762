"""What the virtual engine tells the SDK's workflow instance, and how an instance is made and entered.

All imports of the SDK that are not public API stand here; a canary test watches the shape of each.
"""

from __future__ import annotations

import asyncio
import contextvars
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, TypeAlias, TypeVar

import temporalio.workflow
from temporalio.api.common.v1 import Payload, Payloads
from temporalio.api.failure.v1 import Failure
from temporalio.bridge.proto.activity_result import ActivityResolution
from temporalio.bridge.proto.workflow_activation import InitializeWorkflow, ResolveActivity
from temporalio.bridge.proto.workflow_activation import WorkflowActivation as WorkflowActivation
from temporalio.bridge.proto.workflow_activation import WorkflowActivationJob as WorkflowActivationJob
from temporalio.bridge.proto.workflow_commands import ActivityCancellationType
from temporalio.bridge.proto.workflow_commands import (
    ContinueAsNewWorkflowExecution as ContinueAsNewWorkflowExecution,
)
from temporalio.bridge.proto.workflow_commands import QueryResult as QueryResult
from temporalio.bridge.proto.workflow_commands import ScheduleActivity as ScheduleActivity
from temporalio.bridge.proto.workflow_commands import ScheduleLocalActivity as ScheduleLocalActivity
from temporalio.bridge.proto.workflow_commands import StartTimer as StartTimer
from temporalio.bridge.proto.workflow_commands import UpdateResponse as UpdateResponse
from temporalio.bridge.proto.workflow_commands import WorkflowCommand as WorkflowCommand
from temporalio.common import MetricMeter, Priority, RetryPolicy
from temporalio.converter import DataConverter, decode_search_attributes, decode_typed_search_attributes
from temporalio.exceptions import (
    ActivityError,
    ApplicationError,
    CancelledError,
    FailureError,
    RetryState,
    TimeoutType,
)
from temporalio.exceptions import TimeoutError as TimedOutError
from temporalio.worker import Interceptor, WorkflowInterceptorClassInput
from temporalio.worker._workflow_instance import (
    UnsandboxedWorkflowRunner,
    WorkflowInstance,
    WorkflowInstanceDetails,
)

_T = TypeVar("_T")
_AT_ONCE = timedelta(0)


@dataclass(frozen=True)
class ActivityCall:
    """An activity as the workflow scheduled it. Timeouts that the workflow did not set are `None`.

    `scheduled_at` is virtual time. `payloads` are the arguments as they would be stored; `args` decodes
    them. `seq` numbers the activities of one run, regular and local together, from 1.
    """

    activity_type: str
    activity_id: str
    seq: int
    is_local: bool
    attempt: int
    scheduled_at: datetime
    payloads: tuple[Payload, ...]
    headers: Mapping[str, Payload]
    task_queue: str
    schedule_to_close_timeout: timedelta | None
    schedule_to_start_timeout: timedelta | None
    start_to_close_timeout: timedelta | None
    heartbeat_timeout: timedelta | None
    retry_policy: RetryPolicy | None
    data_converter: DataConverter = field(repr=False, compare=False)

    def args(self, types: list[type] | None = None) -> list[Any]:
        """The arguments, each decoded to its entry of `types` (without it: to plain JSON values)."""
        return self.data_converter.payload_converter.from_payloads(self.payloads, types)


@dataclass(frozen=True)
class Completed:
    """The activity returned `value`, `after` this much virtual time."""

    value: Any = None
    after: timedelta = _AT_ONCE


@dataclass(frozen=True)
class Failed:
    """The activity failed for good: `failure` is what it raised last, after all of its attempts."""

    failure: BaseException
    after: timedelta = _AT_ONCE


@dataclass(frozen=True)
class TimedOut:
    """The activity ran into its time-out `kind` for good."""

    kind: TimeoutType = TimeoutType.START_TO_CLOSE
    after: timedelta = _AT_ONCE


@dataclass(frozen=True)
class Cancelled:
    """The activity reported that it was cancelled."""

    after: timedelta = _AT_ONCE


ActivityEnd: TypeAlias = Completed | Failed | TimedOut | Cancelled


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


class RunawayWorkflow(Exception):
    """The workflow was still going after `max_activations`; most likely it loops without waiting."""


class Run:
    """One run: the SDK's instance, and a history that is counted but not kept. Needs a running loop."""

    def __init__(self, host: Host, run_id: str, at: datetime, init: InitializeWorkflow, suggest_at: int) -> None:
        self._host, self._run_id, self._suggest_at = host, run_id, suggest_at
        self._instance = _create_instance(host, run_id, at, init)
        self._length, self._bytes = 0, 0
        self._unread = 1  # events since the last workflow task started; the first one is the workflow's start

    async def activate(
        self, jobs: Sequence[WorkflowActivationJob], events: int | None, now: datetime
    ) -> Sequence[WorkflowCommand]:
        """Hand over `jobs` and return what the workflow wants done. Raises `WorkflowTaskFailed`.

        `events` is how many events brought the jobs; `None` if they belong to the workflow task before.
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
            continue_as_new_suggested=self._length >= self._suggest_at,
        )
        activation.timestamp.FromDatetime(now)
        completion = await _outside_any_task(lambda: self._instance.activate(activation))
        if completion.HasField("failed"):
            raise self._task_failed(completion.failed.failure)
        commands = completion.successful.commands
        self._unread += sum(_events_of(command) for command in commands)
        if _refused(jobs, commands):
            self._length, self._unread = before  # a server forgets the workflow task of a refused update
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


def _create_instance(host: Host, run_id: str, at: datetime, init: InitializeWorkflow) -> WorkflowInstance:
    extern: dict[str, Callable[..., Any]] = {}
    made = (i.workflow_interceptor_class(WorkflowInterceptorClassInput(extern)) for i in host.interceptors)
    classes = [c for c in made if c]
    extern["__temporal_get_metric_meter"] = lambda: MetricMeter.noop
    extern["__temporal_assert_local_activity_valid"] = lambda _name: None
    return UnsandboxedWorkflowRunner().create_instance(
        WorkflowInstanceDetails(
            payload_converter_factory=host.data_converter._new_payload_converter,
            failure_converter_class=host.data_converter.failure_converter_class,
            interceptor_classes=classes,
            defn=temporalio.workflow._Definition.must_from_class(host.workflow_class),
            info=_info(host, run_id, at, init),
            randomness_seed=init.randomness_seed,
            extern_functions=extern,
            disable_eager_activity_execution=False,
            worker_level_failure_exception_types=host.failure_exception_types,
            patch_activation_callback=None,
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
        try:
            done.set_result(step())
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


def activity_call(command: ScheduleActivity | ScheduleLocalActivity, at: datetime, host: Host) -> ActivityCall:
    """Read one schedule command. A local activity has no heartbeat and runs on the workflow's own queue."""

    def limit(name: str) -> timedelta | None:
        timeout: timedelta = getattr(command, name).ToTimedelta()
        return timeout if command.HasField(name) else None  # type: ignore[arg-type]

    local = isinstance(command, ScheduleLocalActivity)
    policy = RetryPolicy.from_proto(command.retry_policy) if command.HasField("retry_policy") else None
    return ActivityCall(
        activity_type=command.activity_type,
        activity_id=command.activity_id,
        seq=command.seq,
        is_local=local,
        attempt=1,
        scheduled_at=at,
        payloads=tuple(command.arguments),
        headers=dict(command.headers),
        task_queue=host.task_queue if isinstance(command, ScheduleLocalActivity) else command.task_queue,
        schedule_to_close_timeout=limit("schedule_to_close_timeout"),
        schedule_to_start_timeout=limit("schedule_to_start_timeout"),
        start_to_close_timeout=limit("start_to_close_timeout"),
        heartbeat_timeout=None if local else limit("heartbeat_timeout"),
        retry_policy=policy,
        data_converter=host.data_converter,
    )


def stays_when_cancelled(command: ScheduleActivity | ScheduleLocalActivity) -> bool:
    """Whether a request to cancel leaves the workflow waiting for the activity's own end."""
    return command.cancellation_type == ActivityCancellationType.WAIT_CANCELLATION_COMPLETED


def activity_job(call: ActivityCall, end: ActivityEnd) -> WorkflowActivationJob:
    """The resolution of an activity, in the shape in which the SDK's core hands over a real one."""
    resolution = ActivityResolution()
    converter = call.data_converter.payload_converter
    if isinstance(end, Completed):
        resolution.completed.result.CopyFrom(converter.to_payloads([end.value])[0])
    else:
        cancelled = isinstance(end, Cancelled)
        failure = resolution.cancelled.failure if cancelled else resolution.failed.failure
        call.data_converter.failure_converter.to_failure(_error(call, end), converter, failure)
    resolved = ResolveActivity(seq=call.seq, result=resolution, is_local=call.is_local)
    return WorkflowActivationJob(resolve_activity=resolved)


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


def _error(call: ActivityCall, end: Failed | TimedOut | Cancelled) -> BaseException:
    match end:
        case Failed(error):
            # core hands a local activity's failure over bare: the workflow sees no ActivityError around it
            return error if call.is_local else _around(call, "Activity task failed", error, _why_final(error))
        case TimedOut(kind) if call.is_local:
            # the retry state is odd, but it is what core says
            cause = TimedOutError("Activity timed out", type=kind, last_heartbeat_details=[])
            return _around(call, "Local Activity timed out", cause, RetryState.CANCEL_REQUESTED)
        case TimedOut(kind):
            name = kind.name.title().replace("_", "")
            late = TimedOutError(f"activity {name} timeout", type=kind, last_heartbeat_details=[])
            return _around(call, "Activity task timed out", late, _why_final(late))
        case Cancelled() if call.is_local:
            stop = CancelledError("Activity cancelled")
            return _around(call, "Local Activity cancelled", stop, RetryState.CANCEL_REQUESTED)
        case Cancelled():
            return _around(call, "Activity cancelled", CancelledError(""), RetryState.CANCEL_REQUESTED)


def _why_final(error: BaseException) -> RetryState:
    hopeless = isinstance(error, ApplicationError) and error.non_retryable
    # a worker that took too long gets a retry; a queue that nobody serves does not
    retried = (TimeoutType.START_TO_CLOSE, TimeoutType.HEARTBEAT)
    late = isinstance(error, TimedOutError) and error.type not in retried
    return RetryState.NON_RETRYABLE_FAILURE if hopeless or late else RetryState.MAXIMUM_ATTEMPTS_REACHED


def _around(call: ActivityCall, message: str, cause: BaseException, state: RetryState) -> ActivityError:
    error = ActivityError(
        message,
        scheduled_event_id=0,
        started_event_id=0,
        identity="",
        activity_type=call.activity_type,
        activity_id=call.activity_id,
        retry_state=state,
    )
    error.__cause__ = cause
    return error


def _info(host: Host, run_id: str, at: datetime, init: InitializeWorkflow) -> temporalio.workflow.Info:
    return temporalio.workflow.Info(
        attempt=init.attempt,
        continued_run_id=init.continued_from_execution_run_id or None,
        cron_schedule=None,
        execution_timeout=None,
        first_execution_run_id=init.first_execution_run_id,
        headers=dict(init.headers),
        namespace=host.namespace,
        original_execution_run_id=init.original_execution_run_id,
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
    )
