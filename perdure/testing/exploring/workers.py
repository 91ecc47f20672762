"""A worker process in virtual time: its cache of runs, its activities, and the ways in which it can fail.

The activities are those of a real worker (`perdure._activity.hosting`), and the runs are the SDK's own workflow
instances. A worker that was killed does nothing any more from its next step outside on; one that is frozen goes on
later; one that is stalled goes on later as well, and its threads of Temporal's core go on meanwhile; one that is cut
off from Temporal goes on at once, and what it reports is lost.
"""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from functools import cache
from typing import TYPE_CHECKING, Any

from temporalio import activity as temporal_activity
from temporalio.activity import ActivityCancellationDetails
from temporalio.exceptions import TimeoutType

from perdure._activity.hosting import Activities as Hosted
from perdure._wire.writes import Store
from perdure.testing import server_jobs as sdk
from perdure.testing.exploring.activities import Activities, Activity
from perdure.testing.exploring.calls import Calls, Function, Gone
from perdure.testing.exploring.instances import Instances, TaskFails, shape
from perdure.testing.exploring.runs import Run
from perdure.testing.exploring.workflow_tasks import WorkflowTask, ends
from perdure.testing.server_activities import (
    ActivityCall,
    ActivityEnd,
    Cancelled,
    TimedOut,
    activity_call,
    activity_job,
)

if TYPE_CHECKING:
    from perdure.app import App
    from perdure.testing.exploring.world import World

GRACE = 3.0
"""Seconds that a worker gives its calls when it is stopped."""
current_worker: contextvars.ContextVar[Worker] = contextvars.ContextVar("worker")


class Worker:
    """One worker process; see the module.

    Args:
        world: the loop, the servers, and where findings are reported.
        name: its name.
        app: lifecycles and bodies of its build.
    """

    def __init__(self, world: World, name: str, app: App) -> None:
        self.world: World = world
        self.name: str = name
        self.app: App = app
        self.alive: bool = True
        self.reaches_temporal: bool = True
        self.stopping: bool = False
        self.frozen: asyncio.Future[None] | None = None
        self._core_goes_on: bool = False
        self._thaw: Callable[[], None] = lambda: None
        self.clock_ahead: timedelta = timedelta(0)
        self.connection: Store = world.database.connection(self)
        self.instances: Instances = Instances(world, app)
        self._calls = Calls(world.loop, _functions(app), lambda: _enter(self), self.here)

    # -- how it can fail

    @property
    def takes_work(self) -> bool:
        """Whether Temporal can hand it a task."""
        return self.reports and not self.stopping

    @property
    def reports(self) -> bool:
        """Whether Temporal receives anything from it."""
        return self.alive and self.reaches_temporal and self._core_runs

    @property
    def _core_runs(self) -> bool:
        return self.frozen is None or self._core_goes_on

    @property
    def now(self) -> datetime:
        """The time of day, as its machine has it."""
        return self.world.loop.now + self.clock_ahead

    def kill(self) -> None:
        """SIGKILL."""
        self.alive = False
        self.instances.evict_all()

    def freeze(self, seconds: float) -> None:
        """SIGSTOP, and SIGCONT later: its tasks do nothing in between, and find then that their timers have rung."""
        self._hold(seconds, core_goes_on=False)

    def stall(self, seconds: float) -> None:
        """Something keeps its event loop busy: code that computes, or a machine without a processor to spare. Core has
        threads of its own: it takes tasks and keeps their time, and what it has for the event loop waits."""
        self._hold(seconds, core_goes_on=True)

    def _hold(self, seconds: float, *, core_goes_on: bool) -> None:
        if self.frozen is None and self.alive:
            loop = self.world.loop
            self._core_goes_on = core_goes_on
            thawed = self.frozen = loop.create_future()
            release = loop.hold(lambda context: context.get(current_worker) is self)

            def thaw() -> None:
                if not thawed.done():
                    self.frozen = None
                    release()
                    thawed.set_result(None)

            def goes_on() -> None:
                thaw()
                self.world.temporal.wake()

            self._thaw = thaw
            loop.call_later(seconds, goes_on)

    def cut_off(self, seconds: float) -> None:
        """Its packets to Temporal are lost for a while; those to PostgreSQL and to the other side arrive."""
        if self.reaches_temporal:
            self.reaches_temporal = False
            self.world.loop.call_later(seconds, self._is_back)

    def _is_back(self) -> None:
        self.reaches_temporal = True
        self.world.temporal.wake()

    def stop(self) -> None:
        """SIGTERM: no new work; what is under way has the grace time, and the process ends."""
        if self.stopping:
            return
        self.stopping = True
        self._calls.stop()
        self.world.loop.call_later(GRACE + 4, self.kill)

    async def here(self) -> None:
        """A step outside: it waits while the process is frozen, and ends it where the process was killed."""
        while self.frozen is not None:
            await asyncio.shield(self.frozen)
        self.check()

    def _once_awake(self, step: Callable[[], object]) -> None:
        """Take a step of the event loop: now, or when it goes on."""
        if self.frozen is None:
            step()
        else:
            self.frozen.add_done_callback(lambda _: self._once_awake(step))

    def check(self) -> None:
        """Raise `Gone` if the process was killed."""
        if not self.alive:
            raise Gone

    def close(self) -> None:
        """Put it away with all that it has under way."""
        self.kill()
        self._thaw()
        self._calls.close()

    # -- workflow tasks

    def work_on(self, task: WorkflowTask, jobs: list[sdk.WorkflowActivationJob]) -> None:
        """Bring the run to where its history ends, and give it what is new."""
        self._once_awake(lambda: self._work_on(task, jobs))

    def _work_on(self, task: WorkflowTask, jobs: list[sdk.WorkflowActivationJob]) -> None:
        if task.over or not self.alive:
            return
        merged = None if self.instances.has(task.run) else task.run.merged()
        task.merges = merged is not None
        try:
            outstanding = self.instances.prepare(task.run, task.run.merged_from if task.merges else None)
        except TaskFails as failed:
            self.world.workflow_task_failed(task.run, failed.why)
            return
        if merged is not None:
            jobs = [*merged.jobs, *jobs]
        if task.first:
            jobs = [sdk.WorkflowActivationJob(initialize_workflow=task.run.init_job()), *jobs]
        for call in outstanding.values():
            self._begin_local(task, call)
        self._activate(task, jobs)

    def activate(self, task: WorkflowTask, jobs: Sequence[sdk.WorkflowActivationJob]) -> None:
        """Activate the run's instance, as soon as the event loop can do so."""
        task.waiting.append(jobs)
        self._once_awake(lambda: self._take_next(task))

    def _take_next(self, task: WorkflowTask) -> None:
        if task.waiting:
            self._activate(task, task.waiting.pop(0))

    def _activate(self, task: WorkflowTask, jobs: Sequence[sdk.WorkflowActivationJob]) -> None:
        """One activation of the run's instance, and its commands."""
        if task.over or not self.alive:
            return
        self.world.count_activation(task.run)
        while jobs and not task.over:
            self.world.task = task
            try:
                activation, commands = self.instances.activate(task.run, jobs)
            except TaskFails as failed:
                task.local.clear()
                task.waiting.clear()
                self.world.workflow_task_failed(task.run, failed.why)
                return
            finally:
                self.world.task = None
            task.activations.append(activation)
            task.shapes.append(shape(commands))
            jobs = self._sort(task, commands)
            if any(ends(command) for command in commands):  # nothing of the run is entered any more
                task.local.clear()
                task.waiting.clear()
                break
        if not task.local and not task.waiting:
            self._complete(task)

    def evict(self, run: Run) -> None:
        """Take a run out of the cache."""
        self.instances.evict(run)

    def replay(self, run: Run) -> None:
        """Make the run anew from its history, as a worker does that has lost its cache."""
        self.evict(run)
        try:
            self.instances.prepare(run)
        except TaskFails as failed:
            self.world.workflow_task_failed(run, failed.why)

    def query(self, run: Run, name: str) -> Any:
        """The decoded answer of a query, from the run in this worker's cache; None where its workflow task fails."""
        try:
            return self.instances.query(run, name)
        except TaskFails as failed:
            self.world.workflow_task_failed(run, failed.why)
            return None

    def _sort(self, task: WorkflowTask, commands: Sequence[sdk.WorkflowCommand]) -> list[sdk.WorkflowActivationJob]:
        """Keep what is for the server, begin local activities; returns what is resolved at once, as core does it."""
        at_once: list[sdk.WorkflowActivationJob] = []
        for command in commands:
            match command.WhichOneof("variant"):
                case "schedule_local_activity":
                    self._begin_local(task, self._call(task, command.schedule_local_activity))
                case "request_cancel_local_activity":
                    call = task.local.pop(command.request_cancel_local_activity.seq, None)
                    if call is not None:
                        at_once.append(activity_job(call, Cancelled()))
                case "request_cancel_activity":
                    at_once += self._cancel(task, command)
                case "cancel_timer":
                    if _take_back(task, "start_timer", command.cancel_timer.seq) is None:
                        task.commands.append(command)
                case "set_patch_marker":
                    task.patches.append(command.set_patch_marker.patch_id)
                    task.commands.append(command)
                case _:
                    task.commands.append(command)
        return at_once

    def _cancel(self, task: WorkflowTask, command: sdk.WorkflowCommand) -> list[sdk.WorkflowActivationJob]:
        seq = command.request_cancel_activity.seq
        if (unsent := _take_back(task, "schedule_activity", seq)) is not None:
            task.taken_back.add(seq)
            return [activity_job(self._call(task, unsent.schedule_activity), Cancelled())]
        known = task.activities.get(seq)
        if known is None:
            return []  # its end is on its way
        task.commands.append(command)
        return [] if known.stays_when_cancelled else [activity_job(known.call, Cancelled())]

    def _call(self, task: WorkflowTask, command: sdk.ScheduleActivity | sdk.ScheduleLocalActivity) -> ActivityCall:
        return activity_call(command, self.world.loop.now, self.instances.host_of(task.run))

    def _complete(self, task: WorkflowTask) -> None:
        def received() -> None:
            if not self.alive or task.over or task.local or task.waiting:
                return  # the server will miss it
            if not self.reports:
                self.world.loop.call_later(0.5, received)
                return
            task.completed(task)

        self.world.loop.call_later(self.world.incidents.report_time(task), received)

    # -- activities

    def _begin_local(self, task: WorkflowTask, call: ActivityCall) -> None:
        """Run a local activity until it ends, or its time is over.

        Core counts that time itself, from when it hands the activity to the SDK, and resolves the activity as soon as
        it is over. Only then it asks the SDK to cancel the call, which goes on for as long as it likes: what it commits
        counts, and what it reports is dropped, since core has forgotten it (`LocalActivityManager.complete`, in
        `local_activities.rs`). It does so as well where the workflow task was lost. There is no retry, since each local
        activity of Perdure has one attempt.
        """
        task.local[call.seq] = call
        loop = self.world.loop

        def ended(end: ActivityEnd) -> None:
            timer.cancel()
            if self.alive and not task.over and task.local.get(call.seq) is call:
                del task.local[call.seq]
                self.activate(task, [activity_job(call, end)])

        def times_out() -> None:
            if not self.alive:
                return
            if not self._core_runs:
                # Its timer has rung when it goes on, and a reply may have come as well: either may be the first.
                pause = self.world.random.choice((0.0, 0.01))
                self._once_awake(lambda: loop.call_later(pause, times_out))
                return
            if not task.over and task.local.get(call.seq) is call:
                del task.local[call.seq]
                self.world.cover("local activity timed out", kind.name.lower())
                self.activate(task, [activity_job(call, TimedOut(kind))])
            self._once_awake(lambda: running.cancel(ActivityCancellationDetails(timed_out=True)))

        seconds, kind = _time_of(call)
        timer = loop.call_later(seconds, times_out)
        running = self._calls.begin(call, task.run, ended, lambda details: True)

    def begin_activity(self, run: Run, activities: Activities, activity: Activity) -> None:
        """Run a regular activity, and report how it ended."""
        attempt = activity.attempt

        def ended(end: ActivityEnd) -> None:
            if not self.alive:
                return
            if self.reports:
                activities.report(activity, attempt, end)
            else:
                self.world.loop.call_later(0.5, ended, end)

        def beats(details: Sequence[Any]) -> bool:
            return not self.reports or activities.heartbeat(activity, attempt, details)

        self._calls.begin(activity.call, run, ended, beats)


def _take_back(task: WorkflowTask, kind: str, seq: int) -> sdk.WorkflowCommand | None:
    """A command of the task that was not sent yet, which is not sent any more."""
    for each in task.commands:
        if each.WhichOneof("variant") == kind and getattr(each, kind).seq == seq:
            task.commands.remove(each)
            return each
    return None


def _time_of(call: ActivityCall) -> tuple[float, TimeoutType]:
    """How many seconds a local activity may take, and which time-out that is. The SDK demands one of the two."""
    limits = (
        (call.start_to_close_timeout, TimeoutType.START_TO_CLOSE),
        (call.schedule_to_close_timeout, TimeoutType.SCHEDULE_TO_CLOSE),
    )
    return min((limit.total_seconds(), kind) for limit, kind in limits if limit is not None)


def _enter(worker: Worker) -> None:
    current_worker.set(worker)


@cache
def _functions(app: App) -> dict[str, Function]:
    """The activities of a worker of the app, by type, with the types of their arguments."""
    hosted = Hosted(app, lambda: current_worker.get().connection, scope=None, grace=GRACE)
    defined = [temporal_activity._Definition.must_from_callable(each) for each in hosted.all()]
    return {each.name or "": (each.fn, each.arg_types) for each in defined}
