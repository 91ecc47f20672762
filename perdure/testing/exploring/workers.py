"""A worker process in virtual time: its cache of runs, its activities, and the ways in which it can fail.

The activities are those of a real worker (`perdure._activity.hosting`), and the runs are the SDK's own workflow
instances. A worker that was killed does nothing any more from its next step outside on; one that is frozen goes on
later; one that is cut off from Temporal goes on at once, and what it reports is lost.
"""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from functools import cache
from typing import TYPE_CHECKING, Any

from temporalio import activity as temporal_activity

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
        return self.alive and self.reaches_temporal and self.frozen is None

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
        if self.frozen is None and self.alive:
            loop = self.world.loop
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
        try:
            outstanding = self.instances.prepare(task.run)
        except TaskFails as failed:
            self.world.workflow_task_failed(task.run, failed.why)
            return
        if task.first:
            jobs = [sdk.WorkflowActivationJob(initialize_workflow=task.run.init_job()), *jobs]
        for call in outstanding.values():
            self._begin_local(task, call)
        self.activate(task, jobs)

    def activate(self, task: WorkflowTask, jobs: Sequence[sdk.WorkflowActivationJob]) -> None:
        """One activation of the run's instance, and its commands."""
        if task.over or not self.alive:
            return
        self.world.count_activation(task.run)
        while jobs and not task.over:
            self.world.task = task
            try:
                activation, commands = self.instances.activate(task.run, jobs)
            except TaskFails as failed:
                self.world.workflow_task_failed(task.run, failed.why)
                return
            finally:
                self.world.task = None
            task.activations.append(activation)
            task.shapes.append(shape(commands))
            jobs = self._sort(task, commands)
            if any(ends(command) for command in commands):  # nothing of the run is entered any more
                task.local.clear()
                break
        if not task.local:
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
                case "set_patch_marker":
                    task.patches.append(command.set_patch_marker.patch_id)
                    task.commands.append(command)
                case _:
                    task.commands.append(command)
        return at_once

    def _cancel(self, task: WorkflowTask, command: sdk.WorkflowCommand) -> list[sdk.WorkflowActivationJob]:
        seq = command.request_cancel_activity.seq
        for each in task.commands:
            if each.HasField("schedule_activity") and each.schedule_activity.seq == seq:  # not sent yet
                task.commands.remove(each)
                return [activity_job(self._call(task, each.schedule_activity), Cancelled())]
        known = task.activities.get(seq)
        if known is None:
            return []  # its end is on its way
        task.commands.append(command)
        return [] if known.stays_when_cancelled else [activity_job(known.call, Cancelled())]

    def _call(self, task: WorkflowTask, command: sdk.ScheduleActivity | sdk.ScheduleLocalActivity) -> ActivityCall:
        return activity_call(command, self.world.loop.now, self.instances.host_of(task.run))

    def _complete(self, task: WorkflowTask) -> None:
        def received() -> None:
            if not self.alive or task.over or task.local:
                return  # the server will miss it
            if not self.reports:
                self.world.loop.call_later(0.5, received)
                return
            task.completed(task)

        self.world.loop.call_later(self.world.incidents.report_time(task), received)

    # -- activities

    def _begin_local(self, task: WorkflowTask, call: ActivityCall) -> None:
        task.local[call.seq] = call

        def ended(end: ActivityEnd) -> None:
            if not self.alive or task.over or task.local.get(call.seq) is not call:
                return
            del task.local[call.seq]
            self.activate(task, [activity_job(call, end)])

        self._calls.begin(call, task.run, ended, lambda details: True)

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


def _enter(worker: Worker) -> None:
    current_worker.set(worker)


@cache
def _functions(app: App) -> dict[str, Function]:
    """The activities of a worker of the app, by type, with the types of their arguments."""
    hosted = Hosted(app, lambda: current_worker.get().connection, scope=None, grace=GRACE)
    defined = [temporal_activity._Definition.must_from_callable(each) for each in hosted.all()]
    return {each.name or "": (each.fn, each.arg_types) for each in defined}
