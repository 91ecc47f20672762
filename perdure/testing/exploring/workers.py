"""A worker process in virtual time: its cache of runs, its activities, and the ways in which it can fail.

The activities are those of a real worker (`perdure.activity.hosting`), and the runs are the SDK's own workflow
instances. A worker that was killed does nothing any more from its next step outside on; one that is frozen goes on
later; one that is cut off from Temporal goes on at once, and nobody receives what it reports.
"""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from functools import cache
from typing import TYPE_CHECKING, Any

from temporalio import activity as temporal_activity
from temporalio.activity import ActivityCancellationDetails
from temporalio.exceptions import ApplicationError
from temporalio.testing import ActivityEnvironment

from perdure.activity.hosting import Activities
from perdure.testing import engine_jobs as sdk
from perdure.testing.engine_activities import (
    ActivityCall,
    ActivityEnd,
    Cancelled,
    Completed,
    Failed,
    activity_call,
    activity_job,
)
from perdure.testing.exploring.temporal import Activity, Execution, WorkflowTask, ends
from perdure.testing.exploring.virtual_time import entered

if TYPE_CHECKING:
    from perdure.app import App
    from perdure.testing.exploring.world import World

GRACE = 3.0
"""Seconds that a worker gives its calls when it is stopped."""
_STEP = 0.001
"""Seconds between the completion of a workflow task and its receipt."""

current_worker: contextvars.ContextVar[Worker] = contextvars.ContextVar("worker")


class Gone(BaseException):
    """The process does not exist any more; no code of it may take this for an error that it can handle."""


class Worker:
    """One worker process; see the module.

    Args:
        world: the loop, the servers, and who is told of what must not happen.
        name: its name.
        app: lifecycles and bodies of its build.
    """

    def __init__(self, world: World, name: str, app: App) -> None:
        self.world, self.name, self.app = world, name, app
        self.alive, self.reaches_temporal, self.stopping = True, True, False
        self.frozen: asyncio.Future[None] | None = None
        self.clock_ahead = timedelta(0)
        self.connection = world.database.connection(self)
        self._cache: dict[str, tuple[Any, int]] = {}
        self._environments: set[ActivityEnvironment] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._functions = _functions(app)

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
        for run_id in list(self._cache):
            self._evict(run_id)

    def freeze(self, seconds: float) -> None:
        """SIGSTOP, and SIGCONT later."""
        if self.frozen is None and self.alive:
            thawed = self.frozen = self.world.loop.create_future()

            def thaw() -> None:
                self.frozen = None
                thawed.set_result(None)
                self.world.temporal.poke()

            self.world.loop.call_later(seconds, thaw)

    def cut_off(self, seconds: float) -> None:
        """Its packets to Temporal are lost for a while; those to PostgreSQL and to the other side arrive."""
        if self.reaches_temporal:
            self.reaches_temporal = False
            self.world.loop.call_later(seconds, self._is_back)

    def _is_back(self) -> None:
        self.reaches_temporal = True
        self.world.temporal.poke()

    def stop(self) -> None:
        """SIGTERM: no new work; what is under way has the grace time, and the process ends."""
        if self.stopping:
            return
        self.stopping = True
        for environment in list(self._environments):
            environment.worker_shutdown()
        self.world.loop.call_later(GRACE + 4, self.kill)

    async def here(self) -> None:
        """A step outside: it waits while the process is frozen, and ends it where it is dead."""
        while self.frozen is not None:
            await asyncio.shield(self.frozen)
        self.check()

    def check(self) -> None:
        """Raise `Gone` if the process is dead."""
        if not self.alive:
            raise Gone

    def close(self) -> None:
        """Put it away with all that it has under way."""
        self.kill()
        for task in self._tasks:
            task.cancel()

    # -- workflow tasks

    def work_on(self, task: WorkflowTask, jobs: list[sdk.WorkflowActivationJob]) -> None:
        """Bring the run to where its history ends, and give it what is new."""
        execution = task.execution
        cached = self._cache.get(execution.run_id)
        outstanding: dict[int, ActivityCall] = {}
        if cached is None or cached[1] != len(execution.history):
            self._evict(execution.run_id)
            outstanding = self._replay(execution)
        if task.first:
            first = sdk.WorkflowActivationJob(initialize_workflow=execution.init_job(self._host(execution)))
            jobs = [first, *jobs]
        for call in outstanding.values():
            self._begin_local(task, call)
        self.activate(task, jobs)

    def activate(self, task: WorkflowTask, jobs: Sequence[sdk.WorkflowActivationJob]) -> None:
        """One activation of the run's instance, and what it asks for."""
        execution = task.execution
        if task.over or not self.alive:
            return
        self.world.count_activation(execution)
        while jobs:
            instance, known = self._cache[execution.run_id]
            activation = self._activation(execution, jobs)
            self.world.task = task
            completion = self._enter(instance, activation)
            self.world.task = None
            if completion.HasField("failed"):
                self._evict(execution.run_id)
                why = sdk.failure_of(completion.failed.failure, self.world.converter)
                self.world.workflow_task_failed(execution, why)
                return
            self._cache[execution.run_id] = (instance, known + 1)
            commands = completion.successful.commands
            task.activations.append(activation)
            task.told.append(_shape(commands))
            jobs = self._sort(task, commands)
            if any(ends(command) for command in task.commands):  # nothing of the run is entered any more
                task.local.clear()
                break
        if not task.local:
            self._complete(task)

    def forget(self, execution: Execution) -> None:
        """Take a run out of the cache."""
        self._evict(execution.run_id)

    def query(self, execution: Execution, name: str) -> Any:
        """The decoded answer of a query, by the run as this worker knows it."""
        cached = self._cache.get(execution.run_id)
        if cached is None or cached[1] != len(execution.history):
            self._evict(execution.run_id)
            self._replay(execution)
        job = sdk.WorkflowActivationJob()
        job.query_workflow.query_id = job.query_workflow.query_type = name
        instance, _ = self._cache[execution.run_id]
        completion = self._enter(instance, self._activation(execution, [job]))
        answer = completion.successful.commands[0].respond_to_query
        return self.world.converter.payload_converter.from_payloads([answer.succeeded.response])[0]

    def _host(self, execution: Execution) -> sdk.Host:
        return self.world.host_of(execution.lifecycle, self.app)

    def _replay(self, execution: Execution) -> dict[int, ActivityCall]:
        """Make the instance from its history; returns the local activities that have no end there."""
        host = self._host(execution)
        init = execution.init_job(host)
        instance = entered(
            self.world.loop,
            lambda: sdk.create_instance(host, execution.run_id, execution.started, init, loses_tasks=True),
        )
        self._cache[execution.run_id] = (instance, 0)
        outstanding: dict[int, ActivityCall] = {}
        for number, recorded in enumerate(execution.history):
            again = sdk.WorkflowActivation()
            again.CopyFrom(recorded)
            again.is_replaying = True
            for patch in reversed(execution.patches[number]):
                job = sdk.WorkflowActivationJob()
                job.notify_has_patch.patch_id = patch
                again.jobs.insert(0, job)
            completion = self._enter(instance, again)
            if completion.HasField("failed"):
                why = sdk.failure_of(completion.failed.failure, self.world.converter)
                self.world.workflow_task_failed(execution, why)
                break
            self._cache[execution.run_id] = (instance, number + 1)
            commands = completion.successful.commands
            if _shape(commands) != execution.told[number]:
                self.world.found("replay differs", f"{execution.workflow_id}: activation {number} of the history")
            for job in again.jobs:
                if job.HasField("resolve_activity") and job.resolve_activity.is_local:
                    outstanding.pop(job.resolve_activity.seq, None)
            for command in commands:
                if command.HasField("schedule_local_activity"):
                    call = activity_call(command.schedule_local_activity, self.world.loop.now, host)
                    outstanding[call.seq] = call
                elif command.HasField("request_cancel_local_activity"):
                    outstanding.pop(command.request_cancel_local_activity.seq, None)
        self.world.cover("replayed", "with local activities" if outstanding else "plain")
        return outstanding

    def _activation(self, execution: Execution, jobs: Sequence[sdk.WorkflowActivationJob]) -> sdk.WorkflowActivation:
        activation = sdk.WorkflowActivation(
            run_id=execution.run_id,
            jobs=jobs,
            history_length=execution.length,
            continue_as_new_suggested=execution.suggests_renewal(),
            available_internal_flags=self.world.flags,
        )
        for job in activation.jobs:
            if job.HasField("signal_workflow"):
                job.signal_workflow.originating_event_id = execution.length
        activation.timestamp.FromDatetime(execution.task_time)
        return activation

    def _enter(self, instance: Any, activation: sdk.WorkflowActivation) -> Any:
        context = contextvars.Context()
        completion = entered(self.world.loop, lambda: context.run(instance.activate, activation))
        self.world.trace.update(activation.SerializeToString(deterministic=True))
        self.world.trace.update(completion.SerializeToString(deterministic=True))
        return completion

    def _evict(self, run_id: str) -> None:
        cached = self._cache.pop(run_id, None)
        if cached is not None:
            activation = sdk.WorkflowActivation(run_id=run_id)
            activation.timestamp.FromDatetime(self.world.loop.now)
            activation.jobs.add().remove_from_cache.message = "evicted"
            self._enter(cached[0], activation)

    def _sort(self, task: WorkflowTask, commands: Any) -> list[sdk.WorkflowActivationJob]:
        """Keep what is for the server, begin local activities; returns what is resolved at once, as core does it."""
        at_once: list[sdk.WorkflowActivationJob] = []
        execution = task.execution
        for command in commands:
            match command.WhichOneof("variant"):
                case "schedule_local_activity":
                    host = self._host(execution)
                    self._begin_local(task, activity_call(command.schedule_local_activity, self.world.loop.now, host))
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

    def _cancel(self, task: WorkflowTask, command: Any) -> list[sdk.WorkflowActivationJob]:
        seq = command.request_cancel_activity.seq
        unsent = next(
            (
                each
                for each in task.commands
                if each.HasField("schedule_activity") and each.schedule_activity.seq == seq
            ),
            None,
        )
        host = self._host(task.execution)
        if unsent is not None:
            task.commands.remove(unsent)
            return [activity_job(activity_call(unsent.schedule_activity, self.world.loop.now, host), Cancelled())]
        known = task.execution.activities.get(seq)
        if known is None:
            return []  # its end is on its way
        task.commands.append(command)
        return [] if known.stays_when_cancelled else [activity_job(known.call, Cancelled())]

    def _complete(self, task: WorkflowTask) -> None:
        def received() -> None:
            if not self.alive or task.over or task.local:
                return  # the server will miss it
            if not self.reports:
                self.world.loop.call_later(0.5, received)
                return
            task.execution.complete_task(task)

        self.world.loop.call_later(_STEP, received)

    # -- activities

    def _begin_local(self, task: WorkflowTask, call: ActivityCall) -> None:
        task.local[call.seq] = call

        def ended(end: ActivityEnd) -> None:
            if task.over or task.local.get(call.seq) is not call:
                return
            del task.local[call.seq]
            self.activate(task, [activity_job(call, end)])

        self._run(call, task.execution, ended, lambda details: True)

    def begin_activity(self, execution: Execution, activity: Activity) -> None:
        """Run a regular activity, and report how it ended."""
        attempt = activity.attempt

        def ended(end: ActivityEnd) -> None:
            if not self.alive:
                return
            if self.reports:
                execution.report(activity, attempt, end)
            else:
                self.world.loop.call_later(0.5, ended, end)

        def beats(details: Sequence[Any]) -> bool:
            return not self.reports or execution.heartbeat(activity, attempt, details)

        self._run(activity.call, execution, ended, beats)

    def _run(
        self,
        call: ActivityCall,
        execution: Execution,
        ended: Callable[[ActivityEnd], None],
        beats: Callable[[Sequence[Any]], bool],
    ) -> None:
        known = self._functions.get(call.activity_type)
        if known is None:
            ended(Failed(ApplicationError(f"no activity {call.activity_type!r}", type="NotFoundError")))
            return
        environment = ActivityEnvironment()
        environment.info = replace(
            environment.info,
            activity_id=call.activity_id,
            activity_type=call.activity_type,
            heartbeat_timeout=call.heartbeat_timeout,
            is_local=call.is_local,
            workflow_id=execution.workflow_id,
            workflow_run_id=execution.run_id,
            workflow_type=execution.lifecycle,
        )

        def beat(*details: Any) -> None:
            if not beats(details):
                environment.cancel(ActivityCancellationDetails(not_found=True))

        environment.on_heartbeat = beat
        if self.stopping:
            environment.worker_shutdown()
        task = self.world.loop.create_task(self._play(*known, call, environment, ended))
        self._environments.add(environment)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _play(
        self,
        function: Callable[..., Any],
        types: list[type] | None,
        call: ActivityCall,
        environment: ActivityEnvironment,
        ended: Callable[[ActivityEnd], None],
    ) -> None:
        current_worker.set(self)
        try:
            value = await environment.run(function, *call.args(types))
            await self.here()
        except Gone:
            return
        except asyncio.CancelledError:
            return  # the world is put away
        except Exception as error:
            end: ActivityEnd = Failed(error if isinstance(error, ApplicationError) else _failure(error))
        else:
            end = Completed(value)
        finally:
            self._environments.discard(environment)
        if self.alive:
            ended(end)


def _failure(error: Exception) -> ApplicationError:
    return ApplicationError(str(error), type=type(error).__name__)


@cache
def _functions(app: App) -> dict[str, tuple[Callable[..., Any], list[type] | None]]:
    """What a worker of the app runs, by activity type, with the types of its arguments."""
    hosted = Activities(app, lambda: current_worker.get().connection, GRACE)
    defined = [temporal_activity._Definition.must_from_callable(each) for each in hosted.all()]
    return {each.name or "": (each.fn, each.arg_types) for each in defined}


def _shape(commands: Any) -> bytes:
    """Which commands there are, without what may be computed from the time of day on a worker."""
    kinds = []
    for command in commands:
        kind = command.WhichOneof("variant") or ""
        if kind in ("schedule_activity", "schedule_local_activity"):
            inner = getattr(command, kind)
            kind += f" {inner.activity_type} {inner.seq}"
        if kind not in ("set_patch_marker", "update_response"):
            kinds.append(kind)
    return "\n".join(kinds).encode()
