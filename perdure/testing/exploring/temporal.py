"""A Temporal server in virtual time: executions, workflow tasks, activities with all their time-outs, timers, updates.

It plays a server's part as far as a lifecycle can notice: a workflow task may be lost, after which another worker
replays the history and makes the local activities of that task once more; a completion that ends a run is refused while
there is an event that the task has not seen; a regular activity is lost by its heartbeat, and what its worker reports
later is dropped.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Literal

from temporalio.api.common.v1 import Payload
from temporalio.common import RetryPolicy
from temporalio.converter import DataConverter
from temporalio.exceptions import ApplicationError, TimeoutType

from perdure.testing import engine_jobs as sdk
from perdure.testing.engine_activities import (
    ActivityCall,
    ActivityEnd,
    Cancelled,
    Failed,
    TimedOut,
    activity_call,
    activity_job,
    stays_when_cancelled,
)
from perdure.testing.exploring.evidence import Told

if TYPE_CHECKING:
    from perdure.testing.exploring.workers import Worker
    from perdure.testing.exploring.world import World

TASK_TIMEOUT = 5.0
"""Seconds that a workflow task may take, as the relay starts runs."""
_HEARTBEAT_OF_TASK = 4.0
"""Seconds after which a worker completes a task whose local activities still run, to get another one."""
_STICKY = 1.0
"""Seconds for which a task waits for the worker that has the run in its cache."""
_DISPATCH = 0.002
SECONDS_OF_TURN = 3.0
"""Between two activities of one rate limit."""

Outcome = Literal["completed", "failed", "cancelled", "terminated"]


class NotFound(Exception):
    """No such workflow is open."""


class AlreadyStarted(Exception):
    """A workflow of that id is open, or was."""


class UpdateRefused(Exception):
    """The validator refused the update, its handler failed, or the update was lost."""


@dataclass(eq=False)
class Activity:
    """A regular activity from its schedule to its end."""

    call: ActivityCall
    stays_when_cancelled: bool
    attempt: int = 1
    worker: Worker | None = None
    cancel_requested: bool = False
    beat_at: float = 0.0
    details: tuple[Any, ...] = ()
    timers: list[asyncio.TimerHandle] = field(default_factory=list)
    over: bool = False


@dataclass(eq=False)
class WorkflowTask:
    """One workflow task on one worker, from its start to its completion or loss."""

    execution: Execution
    worker: Worker
    jobs: list[tuple[sdk.WorkflowActivationJob, int]]
    """What it was started for; a lost task gives them back."""
    first: bool
    activations: list[sdk.WorkflowActivation] = field(default_factory=list)
    commands: list[sdk.WorkflowCommand] = field(default_factory=list)
    local: dict[int, ActivityCall] = field(default_factory=dict)
    told: list[bytes] = field(default_factory=list)
    answers: list[tuple[str, Any]] = field(default_factory=list)
    """What `perform` answered, by key; it counts once the task is committed."""
    patches: list[str] = field(default_factory=list)
    timers: list[asyncio.TimerHandle] = field(default_factory=list)
    resolved: list[sdk.WorkflowActivationJob] = field(default_factory=list)
    over: bool = False


class VirtualTemporal:
    """Keeps the executions, and gives their tasks to the workers.

    Args:
        world: the loop, the workers, and who is told of what must not happen.
        converter: as the workers have it.
    """

    def __init__(self, world: World, converter: DataConverter) -> None:
        self.world = world
        self.converter = converter
        self.executions: dict[str, Execution] = {}
        self.turn_at: dict[str, float] = {}
        """When the next activity of each rate-limited task queue may start."""
        self._started = 0
        self.clock_ahead = timedelta(0)

    @property
    def now(self) -> datetime:
        """The time of day, as the server has it."""
        return self.world.loop.now + self.clock_ahead

    def start(self, workflow_id: str, lifecycle: str, given: Any, memo: Mapping[str, Any]) -> Execution:
        """Start a workflow.

        Raises:
            AlreadyStarted: one of that id is open.
        """
        known = self.executions.get(workflow_id)
        if known is not None and known.open:
            raise AlreadyStarted(workflow_id)
        to_payloads = self.converter.payload_converter.to_payloads
        kept = {key: to_payloads([value])[0] for key, value in memo.items()}
        self._started += 1
        execution = Execution(self, workflow_id, lifecycle, self._started, list(to_payloads([given])), kept)
        self.executions[workflow_id] = execution
        execution.poke()
        return execution

    def signal(self, workflow_id: str, name: str, *args: Any) -> None:
        """Send a signal.

        Raises:
            NotFound: no workflow of that id is open.
        """
        job = sdk.WorkflowActivationJob()
        job.signal_workflow.signal_name = name
        job.signal_workflow.input.extend(self.converter.payload_converter.to_payloads(args) if args else [])
        self._open(workflow_id).tell(job)

    def request_cancel(self, workflow_id: str) -> None:
        """Request the cancellation of a workflow, as Temporal's own command does."""
        job = sdk.WorkflowActivationJob()
        job.cancel_workflow.reason = "explored"
        execution = self._open(workflow_id)
        if not execution.cancel_requested:
            execution.cancel_requested = True
            execution.tell(job)

    def update(self, workflow_id: str, name: str, *args: Any) -> asyncio.Future[None]:
        """Send an update; the future ends when it is completed, refused, or lost with its workflow task."""
        execution = self._open(workflow_id)
        execution.update_count += 1
        identity = f"{name}-{execution.update_count}"
        job = sdk.WorkflowActivationJob()
        job.do_update.id = job.do_update.protocol_instance_id = identity
        job.do_update.name = name
        job.do_update.input.extend(self.converter.payload_converter.to_payloads(args))
        job.do_update.run_validator = True
        answer = execution.updates[identity] = self.world.loop.create_future()
        execution.tell(job, 0)
        return answer

    def terminate(self, workflow_id: str) -> None:
        """Terminate a workflow: it is closed, and nothing of it runs any more."""
        self._open(workflow_id).close("terminated")

    def lose_everything(self) -> None:
        """The whole server is gone with its data, and an empty one is in its place."""
        for execution in self.executions.values():
            if execution.open:
                execution.close("terminated")
        self.executions.clear()

    def poke(self) -> None:
        """A worker has come, or is reachable again: give it what waits."""
        for execution in list(self.executions.values()):
            execution.poke()

    def _open(self, workflow_id: str) -> Execution:
        execution = self.executions.get(workflow_id)
        if execution is None or not execution.open:
            raise NotFound(workflow_id)
        return execution


class Execution:
    """One workflow with its chain of runs."""

    def __init__(
        self,
        server: VirtualTemporal,
        workflow_id: str,
        lifecycle: str,
        number: int,
        args: list[Payload],
        memo: dict[str, Payload],
    ) -> None:
        self.server, self.world, self.workflow_id, self.lifecycle = server, server.world, workflow_id, lifecycle
        self.number, self.args, self.memo = number, args, memo
        self.runs: list[str] = []
        self.open = True
        self.outcome: Outcome | None = None
        self.failure: BaseException | None = None
        self.updates: dict[str, asyncio.Future[None]] = {}
        self.update_count = 0
        self.cancel_requested = False
        self.sticky: Worker | None = None
        self.task: WorkflowTask | None = None
        self._poked = False
        self._begin_run()

    # -- what a run has

    def _begin_run(self) -> None:
        self.runs.append(f"{self.workflow_id}#{self.number}.{len(self.runs)}")
        self.started = self.task_time = self.server.now
        self.history: list[sdk.WorkflowActivation] = []
        self.patches: list[list[str]] = []
        self.told: list[bytes] = []
        """What each activation of the history made the workflow ask for, to be compared when it is replayed."""
        self.length = 1
        self.tasks_completed = 0
        self.inbox: list[tuple[sdk.WorkflowActivationJob, int]] = []
        self.activities: dict[int, Activity] = {}
        self.stay_when_cancelled: set[int] = set()
        """Activities whose end the workflow awaits also after it has cancelled them, by their numbers."""
        self.timers: dict[int, asyncio.TimerHandle] = {}
        self.fresh = True
        self.lost = False
        """The last task was lost, and is made again whether or not there is anything new."""
        self.renews_after = self.world.renews_after()

    @property
    def run_id(self) -> str:
        return self.runs[-1]

    @property
    def due(self) -> bool:
        """Whether there is something for a workflow task."""
        return bool(self.inbox) or self.fresh or self.lost

    def init_job(self, host: sdk.Host) -> sdk.InitializeWorkflow:
        job = sdk.InitializeWorkflow(
            workflow_type=self.lifecycle,
            workflow_id=self.workflow_id,
            first_execution_run_id=self.runs[0],
            original_execution_run_id=self.run_id,
            continued_from_execution_run_id=self.runs[-2] if len(self.runs) > 1 else "",
            randomness_seed=self.world.seed_of(self.run_id),
            attempt=1,
        )
        job.workflow_task_timeout.FromSeconds(int(TASK_TIMEOUT))
        job.start_time.FromDatetime(self.started)
        job.arguments.extend(self.args)
        for key, value in self.memo.items():
            job.memo.fields[key].CopyFrom(value)
        return job

    # -- workflow tasks

    def tell(self, job: sdk.WorkflowActivationJob, events: int = 1) -> None:
        """Something has happened that the workflow is to be given in its next task."""
        self.inbox.append((job, events))
        self.poke()

    def poke(self) -> None:
        """Start a workflow task as soon as there is a worker for it."""
        if not self.open or self.task is not None or self._poked or not self.due:
            return
        pause = _DISPATCH
        if self.sticky is not None and not self.sticky.takes_work:
            self.sticky, pause = None, _STICKY
        self._poked = True
        self.world.loop.call_later(pause, self._start_task, self.run_id)

    def _start_task(self, run_id: str) -> None:
        self._poked = False
        if not self.open or run_id != self.run_id or self.task is not None or not self.due:
            return self.poke() if self.open and run_id != self.run_id else None
        worker = self.sticky if self.sticky and self.sticky.takes_work else self.world.worker_for(self.lifecycle)
        if worker is None:
            return None  # poked when one comes
        self.sticky = worker
        jobs, self.inbox = self.inbox, []
        task = self.task = WorkflowTask(self, worker, jobs, first=self.fresh)
        self.task_time = self.server.now
        self.fresh = self.lost = False
        self._guard(task)
        self.length += sum(events for _, events in jobs) + 2
        worker.work_on(task, [job for job, _ in jobs])
        return None

    def _guard(self, task: WorkflowTask) -> None:
        for timer in task.timers:
            timer.cancel()
        loop = self.world.loop
        task.timers = [
            loop.call_later(TASK_TIMEOUT, self._task_timed_out, task),
            loop.call_later(_HEARTBEAT_OF_TASK, self._task_heartbeat, task),
        ]

    def _task_timed_out(self, task: WorkflowTask) -> None:
        if not task.over:
            self.lose_task(task)

    def lose_task(self, task: WorkflowTask, *, others: bool = True) -> None:
        """The task never was: what it did not commit is forgotten, and what it was started for is given again."""
        self._end_task(task)
        self.world.told_in_vain |= {key for key, end in task.answers if getattr(end, "in_doubt", False)}
        task.worker.forget(self)
        self.sticky = None
        kept = []
        for job, events in task.jobs:
            if job.HasField("do_update") and others:  # it stood nowhere but in the task
                self._answer(job.do_update.id, UpdateRefused("lost with its workflow task"))
            else:
                kept.append((job, events))
        self.inbox[:0] = kept
        self.fresh, self.lost = task.first, True
        self.poke()

    def _task_heartbeat(self, task: WorkflowTask) -> None:
        if task.over or not task.worker.reports or not task.local:
            return
        self._commit(task)
        task.first, task.jobs = False, []
        self.task_time = self.server.now
        self._guard(task)
        jobs, self.inbox = self.inbox, []
        task.jobs = jobs
        self.length += sum(events for _, events in jobs) + 2
        if jobs:
            task.worker.activate(task, [job for job, _ in jobs])

    def complete_task(self, task: WorkflowTask) -> None:
        """Its worker has no more to do for it."""
        if task.over:
            return
        if self.inbox and any(
            ends(command) for command in task.commands
        ):  # UnhandledCommand: there is an event that this task has not seen
            self.world.cover("task refused", "unseen event")
            return self.lose_task(task, others=False)
        self._end_task(task)
        self._commit(task)
        self.tasks_completed += 1
        self.poke()

    def _end_task(self, task: WorkflowTask) -> None:
        task.over = True
        self.task = None
        for timer in task.timers:
            timer.cancel()

    def _commit(self, task: WorkflowTask) -> None:
        self.history += task.activations
        self.told += task.told
        for key, end in task.answers:
            self.world.told[key].append(Told(end, self.world.loop.time()))
        task.answers = []
        self.patches += [[] for _ in task.activations]
        if task.patches and self.patches:
            self.patches[-len(task.activations) if task.activations else -1] += task.patches
        commands = task.commands
        self.length += 1 + len(commands)
        task.activations, task.told, task.commands, task.patches = [], [], [], []
        for command in commands:
            if not self.open:
                return
            self._obey(command)
            if ends(command):
                return

    def suggests_renewal(self) -> bool:
        return self.tasks_completed >= self.renews_after

    # -- commands

    def _obey(self, command: sdk.WorkflowCommand) -> None:
        match command.WhichOneof("variant"):
            case "schedule_activity":
                self._schedule(command.schedule_activity)
            case "request_cancel_activity":
                self._cancel_activity(command.request_cancel_activity.seq)
            case "start_timer":
                self._start_timer(command.start_timer)
            case "cancel_timer":
                if timer := self.timers.pop(command.cancel_timer.seq, None):
                    timer.cancel()
            case "update_response":
                self._update_answered(command.update_response)
            case "complete_workflow_execution":
                self.close("completed")
            case "cancel_workflow_execution":
                self.close("cancelled")
            case "fail_workflow_execution":
                self.failure = sdk.failure_of(command.fail_workflow_execution.failure, self.server.converter)
                self.close("failed")
            case "continue_as_new_workflow_execution":
                self._continue(command.continue_as_new_workflow_execution)
            case _:
                pass  # markers, memo and search attributes change nothing that a lifecycle can notice

    def close(self, outcome: Outcome) -> None:
        """The workflow is over."""
        self.open, self.outcome = False, outcome
        if self.task is not None:
            task = self.task
            self._end_task(task)
        self._end_run()
        for identity in list(self.updates):
            self._answer(identity, UpdateRefused("the workflow is closed"))

    def _end_run(self) -> None:
        for timer in self.timers.values():
            timer.cancel()
        for activity in self.activities.values():
            self._over(activity)
        for worker in self.world.workers:
            worker.forget(self)

    def _continue(self, command: sdk.ContinueAsNewWorkflowExecution) -> None:
        self._end_run()
        self.args, self.memo = list(command.arguments), dict(command.memo) or self.memo
        waiting = self.inbox
        self._begin_run()
        self.inbox = [(job, events) for job, events in waiting if not job.HasField("resolve_activity")]
        self.world.count_run(self)
        self.poke()

    def _start_timer(self, command: sdk.StartTimer) -> None:
        seq, seconds = command.seq, command.start_to_fire_timeout.ToTimedelta().total_seconds()

        def fires() -> None:
            del self.timers[seq]
            job = sdk.WorkflowActivationJob()
            job.fire_timer.seq = seq
            self.tell(job)

        self.timers[seq] = self.world.loop.call_later(seconds, fires)

    def _update_answered(self, response: sdk.UpdateResponse) -> None:
        if response.HasField("rejected"):
            failure = sdk.failure_of(response.rejected, self.server.converter)
            self._answer(response.protocol_instance_id, UpdateRefused(str(failure)))
        elif not response.HasField("accepted"):
            self._answer(response.protocol_instance_id, None)

    def _answer(self, identity: str, error: Exception | None) -> None:
        answer = self.updates.pop(identity, None)
        if answer is None or answer.done():
            return
        if error is None:
            answer.set_result(None)
        else:
            answer.set_exception(error)
            answer.exception()  # nobody has to look

    # -- regular activities

    def _schedule(self, command: sdk.ScheduleActivity) -> None:
        call = activity_call(command, self.world.loop.now, self.world.host_of(self.lifecycle))
        activity = Activity(call, stays_when_cancelled(command))
        self.activities[call.seq] = activity
        if activity.stays_when_cancelled:
            self.stay_when_cancelled.add(call.seq)
        self._wait_for_worker(activity)

    def _wait_for_worker(self, activity: Activity) -> None:
        loop = self.world.loop
        activity.worker = None
        if limit := activity.call.schedule_to_start_timeout:
            activity.timers.append(
                loop.call_later(limit.total_seconds(), self._times_out, activity, TimeoutType.SCHEDULE_TO_START)
            )
        self._hand_out(activity)

    def _hand_out(self, activity: Activity) -> None:
        if activity.over or activity.worker is not None:
            return
        loop, queue = self.world.loop, activity.call.task_queue
        pause = _DISPATCH
        if "." in queue:  # the queue of a rate limit
            turn = max(self.server.turn_at.get(queue, 0.0), loop.time())
            if turn > loop.time():
                activity.timers.append(loop.call_later(turn - loop.time(), self._hand_out, activity))
                return
            self.server.turn_at[queue] = turn + SECONDS_OF_TURN
        worker = self.world.worker_for(self.lifecycle)
        if worker is None:
            activity.timers.append(loop.call_later(1.0, self._hand_out, activity))
            return
        activity.worker = worker
        loop.call_later(pause, self._start_activity, activity)

    def _start_activity(self, activity: Activity) -> None:
        if activity.over:
            return
        worker, call, loop = activity.worker, activity.call, self.world.loop
        assert worker is not None
        if not worker.takes_work:
            return self._wait_again(activity)
        for timer in activity.timers:
            timer.cancel()
        activity.timers, activity.beat_at = [], loop.time()
        if call.start_to_close_timeout:
            seconds = call.start_to_close_timeout.total_seconds()
            activity.timers.append(loop.call_later(seconds, self._times_out, activity, TimeoutType.START_TO_CLOSE))
        if call.heartbeat_timeout:
            self._watch_heartbeat(activity)
        worker.begin_activity(self, activity)

    def _wait_again(self, activity: Activity) -> None:
        activity.worker = None
        self.world.loop.call_later(1.0, self._hand_out, activity)

    def _watch_heartbeat(self, activity: Activity) -> None:
        loop, limit = self.world.loop, activity.call.heartbeat_timeout
        assert limit is not None
        if activity.over:
            return
        left = activity.beat_at + limit.total_seconds() - loop.time()
        if left <= 0.001:
            return self._times_out(activity, TimeoutType.HEARTBEAT)
        activity.timers.append(loop.call_later(left, self._watch_heartbeat, activity))
        return None

    def heartbeat(self, activity: Activity, attempt: int, details: Sequence[Any]) -> bool:
        """Its worker is alive; False if the server has given that attempt up."""
        if activity.over or activity.attempt != attempt:
            return False
        activity.beat_at = self.world.loop.time()
        activity.details = tuple(details)
        return True

    def _times_out(self, activity: Activity, kind: TimeoutType) -> None:
        if not activity.over:
            self.world.cover("activity timed out", kind.name.lower())
            retried = kind in (TimeoutType.START_TO_CLOSE, TimeoutType.HEARTBEAT)
            self._ended(activity, TimedOut(kind, timedelta(0), activity.details), retried)

    def report(self, activity: Activity, attempt: int, end: ActivityEnd) -> None:
        """How the activity ended in its worker; dropped where the server has given that attempt up."""
        if not activity.over and activity.attempt == attempt:
            failed = isinstance(end, Failed) and not (
                isinstance(end.failure, ApplicationError) and end.failure.non_retryable
            )
            self._ended(activity, end, failed)

    def _ended(self, activity: Activity, end: ActivityEnd, retried: bool) -> None:
        policy = activity.call.retry_policy or RetryPolicy()
        more = policy.maximum_attempts == 0 or activity.attempt < policy.maximum_attempts
        if retried and more and not activity.cancel_requested:
            for timer in activity.timers:
                timer.cancel()
            activity.timers, activity.worker = [], None
            pause = policy.initial_interval.total_seconds() * policy.backoff_coefficient ** (activity.attempt - 1)
            longest = policy.maximum_interval.total_seconds() if policy.maximum_interval else pause
            activity.attempt += 1
            activity.timers.append(self.world.loop.call_later(min(pause, longest), self._wait_for_worker, activity))
            return
        self._resolve(activity, Cancelled() if activity.cancel_requested and retried else end)

    def _resolve(self, activity: Activity, end: ActivityEnd) -> None:
        self._over(activity)
        self.activities.pop(activity.call.seq, None)
        self.tell(activity_job(activity.call, end), 2)

    def _over(self, activity: Activity) -> None:
        activity.over = True
        for timer in activity.timers:
            timer.cancel()

    def _cancel_activity(self, seq: int) -> None:
        activity = self.activities.get(seq)
        if activity is None:  # its end has come meanwhile
            if seq not in self.stay_when_cancelled:  # core has told the workflow another one
                self.inbox = [each for each in self.inbox if not _resolves(each[0], seq)]
            return
        activity.cancel_requested = True
        if not activity.stays_when_cancelled:
            # Core has told the workflow at once; what the worker still does is nobody's business here.
            self._over(activity)
            del self.activities[seq]
        elif activity.worker is None:
            self._resolve(activity, Cancelled())


def _resolves(job: sdk.WorkflowActivationJob, seq: int) -> bool:
    return job.HasField("resolve_activity") and job.resolve_activity.seq == seq


def ends(command: sdk.WorkflowCommand) -> bool:
    """Whether a command ends the run."""
    return command.WhichOneof("variant") in (
        "complete_workflow_execution",
        "fail_workflow_execution",
        "cancel_workflow_execution",
        "continue_as_new_workflow_execution",
    )
