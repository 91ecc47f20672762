"""Workflow tasks in virtual time: each is given to a worker, and is completed, or lost and made again.

A lost task never was: another worker replays the history, and makes the local activities of that task once more. A
completion that ends a run is refused while there is an event that the task has not seen.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from perdure.testing import server_jobs as sdk
from perdure.testing.exploring.activities import Activities
from perdure.testing.exploring.runs import DISPATCH, TASK_TIMEOUT, Run
from perdure.testing.server_activities import ActivityCall

if TYPE_CHECKING:
    from perdure.testing.exploring.workers import Worker
    from perdure.testing.exploring.world import World

_HEARTBEAT = 4.0
"""Seconds after which a worker completes a task whose local activities still run, to get another one."""
_STICKY = 1.0
"""Seconds for which a task waits for the worker that has the run in its cache."""
_ENDS = frozenset(
    {
        "complete_workflow_execution",
        "fail_workflow_execution",
        "cancel_workflow_execution",
        "continue_as_new_workflow_execution",
    }
)


@dataclass(eq=False)
class WorkflowTask:
    """One workflow task on one worker, from its start to its completion or loss.

    Attributes:
        jobs: what it was started for; a lost task gives them back.
        first: whether it is the first one of its run.
        merges: whether its worker is given those before it again; see `runs`.
        speculative: whether it was only started for updates. It is in the history only if one is accepted.
        taken_back: activities that were cancelled before they were sent.
        answers: what `perform` answered, by key; it counts once the task is committed, or has put the end on record.
        completed: called by the worker when it has no more to do for the task.
        waiting: the jobs of activations for which the worker's event loop has had no time yet.
    """

    run: Run
    activities: Activities
    worker: Worker
    jobs: list[tuple[sdk.WorkflowActivationJob, int]]
    first: bool
    completed: Callable[[WorkflowTask], None]
    activations: list[sdk.WorkflowActivation] = field(default_factory=list)
    commands: list[sdk.WorkflowCommand] = field(default_factory=list)
    local: dict[int, ActivityCall] = field(default_factory=dict)
    waiting: list[Sequence[sdk.WorkflowActivationJob]] = field(default_factory=list)
    shapes: list[bytes] = field(default_factory=list)
    answers: list[tuple[str, Any]] = field(default_factory=list)
    patches: list[str] = field(default_factory=list)
    taken_back: set[int] = field(default_factory=set)
    timers: list[asyncio.TimerHandle] = field(default_factory=list)
    merges: bool = False
    speculative: bool = False
    over: bool = False


class WorkflowTasks:
    """Starts the workflow tasks of one execution, one at a time.

    Args:
        world: the loop and the workers.
        run: the first run.
        activities: of that run.
        apply: carries out the commands of a committed task.
        lost_update: called with the id of an update that was lost with its task.

    Attributes:
        sticky: the worker that has the run in its cache.
        task: the one that is under way.
    """

    def __init__(
        self,
        world: World,
        run: Run,
        activities: Activities,
        apply: Callable[[list[sdk.WorkflowCommand]], None],
        lost_update: Callable[[str], None],
    ) -> None:
        self._world, self._apply, self._lost_update = world, apply, lost_update
        self._run, self._activities = run, activities
        self.sticky: Worker | None = None
        self.task: WorkflowTask | None = None
        self._poked = self._closed = False

    def go_on_in(self, run: Run, activities: Activities) -> None:
        """The execution continues as new."""
        self._run, self._activities = run, activities

    def add_job(self, job: sdk.WorkflowActivationJob, events: int = 1) -> None:
        """Something has happened that the workflow is to be given in its next task."""
        self._run.inbox.append((job, events))
        self.wake()

    def wake(self) -> None:
        """Start a workflow task as soon as there is a worker for it."""
        if self._closed or self.task is not None or self._poked or not self._run.due:
            return
        pause = DISPATCH
        if self.sticky is not None and not self.sticky.takes_work:
            self.sticky, pause = None, _STICKY
        self._poked = True
        self._world.loop.call_later(pause, self._start, self._run)

    def close(self) -> None:
        """The execution is over."""
        self._closed = True
        if self.task is not None:
            self._end(self.task)

    def _start(self, run: Run) -> None:
        self._poked = False
        if run is not self._run:
            return self.wake()
        if self._closed or self.task is not None or not run.due:
            return None
        worker = self.sticky if self.sticky and self.sticky.takes_work else self._world.worker_for(run.lifecycle)
        if worker is None:
            return None  # poked when one comes
        self.sticky = worker
        jobs = run.begin_task(self._world.temporal.now)
        task = self.task = WorkflowTask(run, self._activities, worker, jobs, run.fresh, self._complete)
        task.speculative = not (run.fresh or run.lost or any(events for _, events in jobs))
        run.fresh = run.lost = False
        self._guard(task)
        worker.work_on(task, [job for job, _ in jobs])
        return None

    def _guard(self, task: WorkflowTask) -> None:
        for timer in task.timers:
            timer.cancel()
        loop = self._world.loop
        task.timers = [
            loop.call_later(TASK_TIMEOUT, self._times_out, task),
            loop.call_later(_HEARTBEAT, self._heartbeat, task),
        ]

    def _times_out(self, task: WorkflowTask) -> None:
        if not task.over:
            self._lose(task)

    def _lose(self, task: WorkflowTask, *, with_updates: bool = True) -> None:
        """The task never was: what it did not commit is forgotten, and what it was started for is given again."""
        self._end(task)
        self._world.observed.tasks_lost = True
        task.worker.evict(task.run)
        self.sticky = None
        kept = []
        for job, events in task.jobs:
            if job.HasField("do_update") and with_updates:  # it stood nowhere but in the task
                self._lost_update(job.do_update.id)
            else:
                kept.append((job, events))
        run = task.run
        run.inbox[:0] = kept
        run.length += 1
        run.fresh, run.lost = task.first, True
        self.wake()

    def _heartbeat(self, task: WorkflowTask) -> None:
        if task.over:
            return
        if not task.worker.reports or not task.local or task.waiting:  # core does so as soon as it can
            task.timers.append(self._world.loop.call_later(0.1, self._heartbeat, task))
            return
        self._commit(task, heartbeat=True)
        task.first = task.merges = task.speculative = False
        self._guard(task)
        task.jobs = task.run.begin_task(self._world.temporal.now)
        if task.jobs:
            task.worker.activate(task, [job for job, _ in task.jobs])

    def _complete(self, task: WorkflowTask) -> None:
        if task.over:
            return
        if task.run.inbox and any(ends(command) for command in task.commands):
            # UnhandledCommand: there is an event that this task has not seen
            self._world.cover("task refused", "unseen event")
            return self._lose(task, with_updates=False)
        self._end(task)
        replays = self._commit(task, heartbeat=False)
        if replays and task.worker.alive:
            task.worker.replay(task.run)
        self._run.tasks_completed += 1  # where it has continued as new, the new one's, which is to renew the sooner
        self.wake()

    def _end(self, task: WorkflowTask) -> None:
        task.over, self.task = True, None
        for timer in task.timers:
            timer.cancel()

    def _commit(self, task: WorkflowTask, *, heartbeat: bool) -> bool:
        """Put it into the history. Returns whether that goes otherwise than the task did."""
        for key, end in task.answers:
            self._world.observed.note_result(key, end, self._world.loop.time())
        commands = task.commands
        if task.speculative and self._only_refuses(task):
            self._drop(task)
            return False
        left_out = self._leave_out_refused(task)
        if apart := task.run.commit(task, heartbeat=heartbeat):
            self._world.cover("merged", "an update")
            task.worker.instances.recount(task.run, 1)
        task.activations, task.shapes, task.commands, task.patches, task.answers = [], [], [], [], []
        task.taken_back = set()
        self._apply(commands)
        return left_out or apart

    def _only_refuses(self, task: WorkflowTask) -> bool:
        refusals = [each for each in task.commands if each.update_response.HasField("rejected")]
        return len(task.activations) == 1 and len(refusals) == len(task.commands) == len(task.jobs)

    def _drop(self, task: WorkflowTask) -> None:
        """The server drops a task that was only started for updates, and has refused them all. The instance stays."""
        run = task.run
        run.length -= 2
        seen = 1 if not task.merges or run.merged_from is None else run.merged_from + 1 - len(run.history)
        task.worker.instances.recount(run, -seen)
        self._check_unchanged(task, 0)
        self._apply(task.commands)

    def _check_unchanged(self, task: WorkflowTask, place: int) -> None:
        """Report commands of an activation that only had refused updates."""
        if task.shapes[place]:
            what = f"{task.run.workflow_id}: {task.shapes[place].decode()}"
            self._world.found("a refused update has changed the run", what)

    def _leave_out_refused(self, task: WorkflowTask) -> bool:
        """A refused update stands in no history, and what was entered for it alone is not entered in a replay. Returns
        whether there was one."""
        refused = {
            command.update_response.protocol_instance_id
            for command in task.commands
            if command.HasField("update_response") and command.update_response.HasField("rejected")
        }
        accepted = {
            command.update_response.protocol_instance_id
            for command in task.commands
            if command.HasField("update_response") and command.update_response.HasField("accepted")
        }
        if not (left_out := refused - accepted):
            return False
        for place, activation in reversed([*enumerate(task.activations)]):
            jobs = [job for job in activation.jobs if job.do_update.protocol_instance_id not in left_out]
            if len(jobs) == len(activation.jobs):
                continue
            kept = sdk.WorkflowActivation()
            kept.CopyFrom(activation)
            del kept.jobs[:]
            kept.jobs.extend(jobs)
            if jobs:
                task.activations[place] = kept
                continue
            self._check_unchanged(task, place)
            del task.activations[place], task.shapes[place]
            task.worker.instances.recount(task.run, -1)
        return True


def ends(command: sdk.WorkflowCommand) -> bool:
    """Whether a command ends the run."""
    return command.WhichOneof("variant") in _ENDS
