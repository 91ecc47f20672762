"""The activities of a rehearsed workflow: how it scheduled one, and how that one ended.

The shapes are those in which the SDK's core hands a real end to the workflow.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, TypeAlias

from temporalio.activity import ActivityCancellationDetails, _ActivityCancellationDetailsHolder, _Context
from temporalio.api.common.v1 import Payload
from temporalio.api.failure.v1 import Failure
from temporalio.bridge.proto.activity_result import ActivityResolution
from temporalio.bridge.proto.workflow_activation import ResolveActivity, WorkflowActivationJob
from temporalio.bridge.proto.workflow_commands import (
    ActivityCancellationType,
    ScheduleActivity,
    ScheduleLocalActivity,
)
from temporalio.common import MetricMeter, RetryPolicy, _CompositeEvent
from temporalio.converter import DataConverter
from temporalio.exceptions import ActivityError, ApplicationError, CancelledError, RetryState, TimeoutType
from temporalio.exceptions import TimeoutError as TimedOutError
from temporalio.testing import ActivityEnvironment

if TYPE_CHECKING:
    from perdure.testing.server_jobs import Host

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
    """The activity ran into its time-out `kind` for good; `details` went along with its last heartbeat."""

    kind: TimeoutType = TimeoutType.START_TO_CLOSE
    after: timedelta = _AT_ONCE
    details: tuple[Any, ...] = ()


@dataclass(frozen=True)
class Cancelled:
    """The activity reported that it was cancelled."""

    after: timedelta = _AT_ONCE


ActivityEnd: TypeAlias = Completed | Failed | TimedOut | Cancelled


@dataclass(frozen=True)
class UnderWay:
    """The activity works on: `goes_on` is called `after` this much virtual time, and returns how it ends."""

    after: timedelta
    goes_on: Callable[[], Awaitable[ActivityEnd | UnderWay]]


def activity_call(command: ScheduleActivity | ScheduleLocalActivity, at: datetime, host: Host) -> ActivityCall:
    """Read one schedule command. A local activity has no heartbeat and runs on the workflow's own queue."""

    def limit(name: str) -> timedelta | None:
        if not command.HasField(name):  # type: ignore[arg-type]
            return None
        timeout: timedelta = getattr(command, name).ToTimedelta()
        return timeout

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


def as_recorded(job: WorkflowActivationJob) -> None:
    """Give the resolution of a local activity the shape in which core hands it over when it reads it from the history.

    The marker holds the bare failure. Core takes that of a cancelled activity for a cancellation, and puts it into an
    activity's failure again. For a time-out it has no such case, and that stays as it is: see
    `From<CompleteLocalActivityData>` in `local_activity_state_machine.rs`.
    """
    resolved = job.resolve_activity
    if not resolved.is_local or not resolved.result.HasField("failed"):
        return
    failure = resolved.result.failed.failure
    if failure.HasField("activity_failure_info") and failure.cause.HasField("timeout_failure_info"):
        bare = Failure()
        bare.CopyFrom(failure.cause)
        failure.CopyFrom(bare)


def _error(call: ActivityCall, end: Failed | TimedOut | Cancelled) -> BaseException:
    match end:
        case Failed(error):
            # core hands a local activity's failure over bare: the workflow sees no ActivityError around it
            return error if call.is_local else _around(call, "Activity task failed", error, _why_final(error))
        case TimedOut(kind) if call.is_local:
            # the retry state is odd, but core sends it so
            cause = TimedOutError("Activity timed out", type=kind, last_heartbeat_details=[])
            return _around(call, "Local Activity timed out", cause, RetryState.CANCEL_REQUESTED)
        case TimedOut(kind, _, details):
            name = kind.name.title().replace("_", "")
            late = TimedOutError(f"activity {name} timeout", type=kind, last_heartbeat_details=details)
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


_ABOUT = ActivityEnvironment.default_info()


class ActivityContext:
    """The SDK's context of one activity under way, as in `temporalio.testing.ActivityEnvironment`, which takes several
    times as long to make: it is for activities in threads as well.

    Args:
        workflow_id, run_id, workflow_type: the run that has scheduled it.
        beats: called with the details of each heartbeat; False where the server has given the activity up.
    """

    def __init__(
        self,
        call: ActivityCall,
        workflow_id: str,
        run_id: str,
        workflow_type: str,
        beats: Callable[[Sequence[Any]], bool],
    ) -> None:
        info = replace(
            _ABOUT,
            activity_id=call.activity_id,
            activity_type=call.activity_type,
            heartbeat_timeout=call.heartbeat_timeout,
            is_local=call.is_local,
            workflow_id=workflow_id,
            workflow_run_id=run_id,
            workflow_type=workflow_type,
        )
        self._beats = beats
        self._task: asyncio.Task[Any] | None = None
        self._cancelled, self._stopped = _Event(), _Event()
        self._why = _ActivityCancellationDetailsHolder()
        self._context = _Context(
            info=lambda: info,
            heartbeat=self._beat,
            cancelled_event=self._cancelled,
            worker_shutdown_event=self._stopped,
            shield_thread_cancel_exception=None,
            payload_converter_class_or_instance=call.data_converter.payload_converter,
            runtime_metric_meter=MetricMeter.noop,
            client=None,
            cancellation_details=self._why,
        )

    def enter(self) -> None:
        """Let the present context be that of the activity."""
        _Context.set(self._context)

    async def attend(self, activity: Awaitable[Any]) -> Any:
        """What the activity returns; a cancellation cancels it only until then."""
        self._task = asyncio.current_task()
        try:
            return await activity
        finally:
            self._task = None

    def stop(self) -> None:
        """The worker is asked to stop."""
        self._stopped.set()

    def _beat(self, *details: Any) -> None:
        if not self._beats(details):
            self.cancel(ActivityCancellationDetails(not_found=True))

    def cancel(self, why: ActivityCancellationDetails) -> None:
        """Core asks the SDK to cancel it; later requests change nothing."""
        if self._cancelled.is_set():
            return
        self._why.details = why
        self._cancelled.set()
        if self._task is not None:
            self._task.cancel()


class _Event(_CompositeEvent):
    """An event for coroutines alone."""

    def __init__(self) -> None:
        super().__init__(thread_event=None, async_event=asyncio.Event())

    def set(self) -> None:
        assert self.async_event is not None
        self.async_event.set()

    def is_set(self) -> bool:
        return self.async_event is not None and self.async_event.is_set()
