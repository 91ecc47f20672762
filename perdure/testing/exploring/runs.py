"""One run of a workflow, as the server has it: its history, and what its next workflow task is given.

Temporal's core merges a workflow task without a command with the next one, if no event lies between them, and if the
task before it had no command either: a worker that makes the run anew is given both at once
(`find_end_index_of_next_wft_seq`, in `history_update.rs`). An update that is accepted there comes apart from them in
each later replay.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING

from temporalio.api.common.v1 import Payload

from perdure.testing import server_jobs as sdk

if TYPE_CHECKING:
    from perdure.testing.exploring.workflow_tasks import WorkflowTask

TASK_TIMEOUT = 5.0
"""Seconds that a workflow task may take, as the relay starts runs."""
DISPATCH = 0.002
"""Seconds from when a task is due until a worker has it."""


@dataclass
class Run:
    """One run in a chain that each continues as new.

    Attributes:
        run_ids: of the chain, up to this run.
        randomness: what the SDK's random numbers begin with.
        renews_after: after how many workflow tasks it is suggested to continue as new.
        task_time: when its last workflow task was started.
        indexed_at_start: the search attributes that it was started with.
        indexed: those that it has now.
        history: the activations that were committed.
        shapes: the commands of each, to be compared when it is replayed; None = they count with those of the next.
        patches: the ids of the patches that each of them marked.
        length: how many events there are.
        inbox: what the next workflow task is given, each with the number of its events.
        fresh: it has had no workflow task yet.
        lost: the last task was lost, and is made again whether or not there is anything new.
        merged_from: where in the history the tasks begin that core merges with the next one; None = it merges none.
    """

    workflow_id: str
    lifecycle: str
    run_ids: list[str]
    args: list[Payload]
    memo: dict[str, Payload]
    started: datetime
    randomness: int
    renews_after: int
    task_time: datetime
    indexed_at_start: dict[str, Payload] = field(default_factory=dict)
    indexed: dict[str, Payload] = field(init=False)
    history: list[sdk.WorkflowActivation] = field(default_factory=list)
    shapes: list[bytes | None] = field(default_factory=list)
    patches: list[list[str]] = field(default_factory=list)
    length: int = 1
    tasks_completed: int = 0
    inbox: list[tuple[sdk.WorkflowActivationJob, int]] = field(default_factory=list)
    fresh: bool = True
    lost: bool = False
    merged_from: int | None = None
    _taken_back: set[int] = field(default_factory=set)
    """Activities that were cancelled before they were sent. Core reports that at once, without an event."""
    _merges: bool = True
    """Whether core merges the last task with the next one, if that has no command."""
    _is_next: bool = False
    """Whether the next task follows the last one without an event between them."""

    def __post_init__(self) -> None:
        self.indexed = dict(self.indexed_at_start)

    @property
    def run_id(self) -> str:
        return self.run_ids[-1]

    @property
    def due(self) -> bool:
        """Whether there is something for a workflow task."""
        return bool(self.inbox) or self.fresh or self.lost

    @property
    def suggests_renewal(self) -> bool:
        """Whether it is to continue as new."""
        return self.tasks_completed >= self.renews_after

    def init_job(self) -> sdk.InitializeWorkflow:
        """The jobs of the first activation."""
        job = sdk.InitializeWorkflow(
            workflow_type=self.lifecycle,
            workflow_id=self.workflow_id,
            first_execution_run_id=self.run_ids[0],
            original_execution_run_id=self.run_id,
            continued_from_execution_run_id=self.run_ids[-2] if len(self.run_ids) > 1 else "",
            randomness_seed=self.randomness,
            attempt=1,
        )
        job.workflow_task_timeout.FromSeconds(int(TASK_TIMEOUT))
        job.start_time.FromDatetime(self.started)
        job.arguments.extend(self.args)
        for key, value in self.memo.items():
            job.memo.fields[key].CopyFrom(value)
        for key, value in self.indexed_at_start.items():
            job.search_attributes.indexed_fields[key].CopyFrom(value)
        return job

    def begin_task(self, now: datetime) -> list[tuple[sdk.WorkflowActivationJob, int]]:
        """A workflow task is started: what it is given."""
        jobs, self.inbox = self.inbox, []
        self.task_time = now
        events = sum(each for _, each in jobs)
        self.length += events + 2
        if events and not self._is_next:
            self.merged_from = None
        return jobs

    def merged(self) -> sdk.WorkflowActivation | None:
        """What core gives a worker again that makes the run anew, together with the jobs of the next task."""
        if self.merged_from is None or not (activations := self.history[self.merged_from :]):
            return None
        merged = sdk.WorkflowActivation()
        merged.CopyFrom(activations[-1])
        del merged.jobs[:]
        merged.jobs.extend(job for each in activations for job in each.jobs if not self._reports_again(job))
        return merged

    def _reports_again(self, job: sdk.WorkflowActivationJob) -> bool:
        """Whether core makes the job by itself when the code cancels the activity again."""
        return job.HasField("resolve_activity") and job.resolve_activity.seq in self._taken_back

    def commit(self, task: WorkflowTask, *, heartbeat: bool) -> bool:
        """A workflow task is completed: what it did stands in the history. Returns whether an update was given together
        with earlier jobs, and comes apart from them in a replay.

        Args:
            heartbeat: whether the next task follows at once.
        """
        activations, shapes, first = list(task.activations), list[bytes | None](task.shapes), len(self.history)
        apart = False
        if task.merges and (earlier := self.merged()) is not None:
            first = self.merged_from or 0
            del self.history[first:], self.shapes[first:], self.patches[first:]
            if apart := bool(task.commands) and task.commands[0].update_response.HasField("accepted"):
                rest = sdk.WorkflowActivation()
                rest.CopyFrom(activations[0])
                del rest.jobs[: len(earlier.jobs)]
                activations[:1], shapes = [earlier, rest], [None, *shapes]
        self._taken_back |= task.taken_back
        self.history += activations
        self.shapes += shapes
        self.patches += [[] for _ in activations]
        if task.patches and self.patches:
            self.patches[first + apart if activations else -1] += task.patches
        self.length += 1 + len(task.commands)
        self._is_next = heartbeat
        self._note_command(task, first)
        return apart

    def _note_command(self, task: WorkflowTask, first: int) -> None:
        """Note whether core merges the task, whose activations begin at `first`, with the next one."""
        if task.commands or any(job.resolve_activity.is_local for each in task.activations for job in each.jobs):
            self.merged_from, self._merges = None, False
        elif self._merges:
            self.merged_from = first if self.merged_from is None else self.merged_from
        else:
            self.merged_from, self._merges = None, True
