"""One run of a workflow, as the server has it: its history, and what its next workflow task is given."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime

from temporalio.api.common.v1 import Payload

from perdure.testing import server_jobs as sdk

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
        history: the activations that were committed.
        shapes: the commands of each, to be compared when it is replayed.
        patches: the ids of the patches that each of them marked.
        length: how many events there are.
        inbox: what the next workflow task is given, each with the number of its events.
        fresh: it has had no workflow task yet.
        lost: the last task was lost, and is made again whether or not there is anything new.
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
    history: list[sdk.WorkflowActivation] = field(default_factory=list)
    shapes: list[bytes] = field(default_factory=list)
    patches: list[list[str]] = field(default_factory=list)
    length: int = 1
    tasks_completed: int = 0
    inbox: list[tuple[sdk.WorkflowActivationJob, int]] = field(default_factory=list)
    fresh: bool = True
    lost: bool = False

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
        return job

    def begin_task(self, now: datetime) -> list[tuple[sdk.WorkflowActivationJob, int]]:
        """A workflow task is started: what it is given."""
        jobs, self.inbox = self.inbox, []
        self.task_time = now
        self.length += sum(events for _, events in jobs) + 2
        return jobs

    def commit(
        self, activations: list[sdk.WorkflowActivation], shapes: list[bytes], patches: list[str], commands: int
    ) -> None:
        """A workflow task is completed: what it did stands in the history."""
        self.history += activations
        self.shapes += shapes
        self.patches += [[] for _ in activations]
        if patches and self.patches:
            self.patches[-len(activations) if activations else -1] += patches
        self.length += 1 + commands
