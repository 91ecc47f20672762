"""The SDK's workflow instances that a worker has in its memory, each made from its history when it is not there."""

from __future__ import annotations

import contextvars
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from perdure.testing import server_jobs as sdk
from perdure.testing.exploring.runs import Run
from perdure.testing.exploring.virtual_time import entered
from perdure.testing.server_activities import ActivityCall, activity_call, as_recorded
from perdure.testing.server_watch import watched

if TYPE_CHECKING:
    from perdure.app import App
    from perdure.testing.exploring.world import World


class TaskFails(Exception):
    """Workflow code has raised what fails its task; `why` is that."""

    def __init__(self, why: BaseException) -> None:
        super().__init__(str(why))
        self.why = why


class Instances:
    """One worker's cache of runs.

    Args:
        world: the loop, and where findings are reported.
        app: lifecycles of the worker's build.
    """

    def __init__(self, world: World, app: App) -> None:
        self._world, self._app = world, app
        self._known: dict[str, tuple[Any, int]] = {}
        """By run: the instance, and how many activations of the history it has seen."""

    def host_of(self, run: Run) -> sdk.Host:
        """Makes the instances of a run."""
        return self._world.host_of(run.lifecycle, self._app)

    def has(self, run: Run) -> bool:
        """Whether the run is in the cache, as its history is."""
        known = self._known.get(run.run_id)
        return known is not None and known[1] == len(run.history)

    def prepare(self, run: Run, end: int | None = None) -> dict[int, ActivityCall]:
        """Bring a run to where its history ends, or to an earlier place; returns the local activities that have no end
        there.

        Raises:
            TaskFails: as it is replayed.
        """
        if self.has(run):
            return {}
        self.evict(run)
        return self._replay(run, end)

    def activate(
        self, run: Run, jobs: Sequence[sdk.WorkflowActivationJob]
    ) -> tuple[sdk.WorkflowActivation, Sequence[sdk.WorkflowCommand]]:
        """Give a run jobs: the activation, for its history, and its commands.

        Raises:
            TaskFails: it fails.
        """
        instance, count = self._known[run.run_id]
        activation = self._activation(run, jobs)
        completion = self._enter(instance, activation)
        if completion.HasField("failed"):
            self.evict(run)
            raise TaskFails(sdk.failure_of(completion.failed.failure, self._world.converter))
        self._known[run.run_id] = (instance, count + 1)
        return activation, completion.successful.commands

    def query(self, run: Run, name: str) -> Any:
        """The decoded answer of a query."""
        self.prepare(run)
        job = sdk.WorkflowActivationJob()
        job.query_workflow.query_id = job.query_workflow.query_type = name
        instance, _ = self._known[run.run_id]
        completion = self._enter(instance, self._activation(run, [job]))
        answer = completion.successful.commands[0].respond_to_query
        return self._world.converter.payload_converter.from_payloads([answer.succeeded.response])[0]

    def evict(self, run: Run) -> None:
        """Take a run out of the cache."""
        self._evict(run.run_id)

    def recount(self, run: Run, more: int) -> None:
        """The history has more activations than the instance has seen, or less."""
        if known := self._known.get(run.run_id):
            self._known[run.run_id] = known[0], known[1] + more

    def evict_all(self) -> None:
        """Take all runs out of the cache."""
        for run_id in list(self._known):
            self._evict(run_id)

    def _evict(self, run_id: str) -> None:
        known = self._known.pop(run_id, None)
        if known is not None:
            activation = sdk.WorkflowActivation(run_id=run_id)
            activation.timestamp.FromDatetime(self._world.loop.now)
            activation.jobs.add().remove_from_cache.message = "evicted"
            self._enter(known[0], activation)

    def _replay(self, run: Run, end: int | None) -> dict[int, ActivityCall]:
        host = self.host_of(run)
        instance = entered(
            self._world.loop,
            lambda: sdk.create_instance(host, run.run_id, run.started, run.init_job(), loses_tasks=True),
        )
        self._known[run.run_id] = (instance, 0)
        outstanding: dict[int, ActivityCall] = {}
        joined: list[bytes] = []
        for number, recorded in enumerate(run.history[:end]):
            again = _again(recorded, run.patches[number])
            completion = self._enter(instance, again)
            if completion.HasField("failed"):
                raise TaskFails(sdk.failure_of(completion.failed.failure, self._world.converter))
            self._known[run.run_id] = (instance, number + 1)
            commands = completion.successful.commands
            joined.append(shape(commands))
            if (expected := run.shapes[number]) is not None:
                if not _is_shape(joined, expected):
                    self._world.found("replay differs", f"{run.workflow_id}: activation {number} of the history")
                joined = []
            for job in again.jobs:
                if job.HasField("resolve_activity") and job.resolve_activity.is_local:
                    outstanding.pop(job.resolve_activity.seq, None)
            for command in commands:
                if command.HasField("schedule_local_activity"):
                    call = activity_call(command.schedule_local_activity, self._world.loop.now, host)
                    outstanding[call.seq] = call
                elif command.HasField("request_cancel_local_activity"):
                    outstanding.pop(command.request_cancel_local_activity.seq, None)
        self._world.cover("replayed", "with local activities" if outstanding else "plain")
        return outstanding

    def _activation(self, run: Run, jobs: Sequence[sdk.WorkflowActivationJob]) -> sdk.WorkflowActivation:
        activation = sdk.WorkflowActivation(
            run_id=run.run_id,
            jobs=jobs,
            history_length=run.length,
            continue_as_new_suggested=run.suggests_renewal,
            available_internal_flags=self._world.flags,
        )
        for job in activation.jobs:
            if job.HasField("signal_workflow"):
                job.signal_workflow.originating_event_id = run.length
        activation.timestamp.FromDatetime(run.task_time)
        return activation

    def _enter(self, instance: Any, activation: sdk.WorkflowActivation) -> Any:
        context, world = contextvars.Context(), self._world
        completion = entered(world.loop, lambda: watched(lambda: context.run(instance.activate, activation)))
        if world.traced:
            world.trace.update(activation.SerializeToString(deterministic=True))
            world.trace.update(completion.SerializeToString(deterministic=True))
        return completion


def _again(recorded: sdk.WorkflowActivation, patches: list[str]) -> sdk.WorkflowActivation:
    """An activation of the history, as it is replayed."""
    again = sdk.WorkflowActivation()
    again.CopyFrom(recorded)
    again.is_replaying = True
    for job in again.jobs:
        as_recorded(job)
        if job.HasField("do_update"):
            job.do_update.run_validator = False  # it was accepted
    for patch in reversed(patches):
        job = sdk.WorkflowActivationJob()
        job.notify_has_patch.patch_id = patch
        again.jobs.insert(0, job)
    return again


def _is_shape(joined: Sequence[bytes], expected: bytes) -> bool:
    """Whether these activations give the commands of one. Those of two may come in another order."""
    if len(joined) == 1:
        return joined[0] == expected
    return sorted(line for each in joined for line in each.splitlines()) == sorted(expected.splitlines())


def shape(commands: Sequence[sdk.WorkflowCommand]) -> bytes:
    """Which commands there are, without what may be computed from the time of day on a worker."""
    kinds = []
    for command in commands:
        kind: str = command.WhichOneof("variant") or ""
        if kind in ("schedule_activity", "schedule_local_activity"):
            inner = getattr(command, kind)
            kind += f" {inner.activity_type} {inner.seq}"
        if kind not in ("set_patch_marker", "update_response"):
            kinds.append(kind)
    return "\n".join(kinds).encode()
