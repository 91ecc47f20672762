"""One workflow in virtual time, with its chain of runs: executes its commands, and ends it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Literal

from temporalio.api.common.v1 import Payload

from perdure._wire.indexed import ATTENTION
from perdure._wire.requests import SENT_AGAIN, TakenOver
from perdure.testing import server_jobs as sdk
from perdure.testing.exploring.activities import Activities
from perdure.testing.exploring.runs import Run
from perdure.testing.exploring.workflow_tasks import WorkflowTasks, ends

if TYPE_CHECKING:
    from perdure.testing.exploring.world import World

Outcome = Literal["completed", "failed", "cancelled", "terminated"]


class UpdateRefused(Exception):
    """The validator refused the update, its handler failed, or the update was lost."""


class Execution:
    """One workflow: its run, the run's activities and timers, and its workflow tasks.

    Args:
        world: the loop, the workers, and where findings are reported.
        workflow_id: its id.
        lifecycle: its type.
        number: distinguishes it from others that had its id.
        args: of its first run.
        memo: of its first run.
        indexed: the search attributes of its first run.

    Attributes:
        outcome: how it ended.
        failure: with which it failed.
    """

    def __init__(
        self,
        world: World,
        workflow_id: str,
        lifecycle: str,
        number: int,
        args: list[Payload],
        memo: dict[str, Payload],
        indexed: dict[str, Payload],
    ) -> None:
        self._world = world
        self.open: bool = True
        self.outcome: Outcome | None = None
        self.failure: BaseException | None = None
        self._cancel_requested = False
        self._updates: dict[str, tuple[sdk.WorkflowActivationJob, asyncio.Future[None]]] = {}
        self._update_count = 0
        self._timers: dict[int, asyncio.TimerHandle] = {}
        run_id = f"{workflow_id}#{number}.0"
        self.run: Run = Run(
            workflow_id=workflow_id,
            lifecycle=lifecycle,
            run_ids=[run_id],
            args=args,
            memo=memo,
            started=world.temporal.now,
            randomness=world.seed_of(run_id),
            renews_after=world.renews_after(),
            task_time=world.temporal.now,
            indexed_at_start=indexed,
        )
        self.activities: Activities = Activities(world, self.run, self._add_job)
        self.tasks: WorkflowTasks = WorkflowTasks(world, self.run, self.activities, self._apply_all, self._lose_update)

    @property
    def indexed(self) -> dict[str, str]:
        """Its search attributes, as Temporal's lists show them."""
        return {name: json.loads(value.data) for name, value in self.run.indexed.items()}

    def wake(self) -> None:
        """A worker has come, or there is something for it."""
        self.tasks.wake()

    def signal(self, job: sdk.WorkflowActivationJob) -> None:
        """A signal has come."""
        self.tasks.add_job(job)

    def request_cancel(self) -> None:
        """Request its cancellation; once."""
        if not self._cancel_requested:
            self._cancel_requested = True
            job = sdk.WorkflowActivationJob()
            job.cancel_workflow.reason = "explored"
            self.tasks.add_job(job)

    def update(self, name: str, args: list[Payload]) -> asyncio.Future[None]:
        """An update has come; the future ends when it is completed, refused, or lost with its workflow task."""
        job = sdk.WorkflowActivationJob()
        job.do_update.name = name
        job.do_update.input.extend(args)
        job.do_update.run_validator = True
        answer = self._world.loop.create_future()
        self._send(job, answer)
        return answer

    def _send(self, job: sdk.WorkflowActivationJob, answer: asyncio.Future[None], begin: str = "") -> None:
        self._update_count += 1
        job.do_update.id = job.do_update.protocol_instance_id = f"{begin}{job.do_update.name}-{self._update_count}"
        self._updates[job.do_update.id] = job, answer
        self.tasks.add_job(job, 0)

    def close(self, outcome: Outcome) -> None:
        """The workflow is over."""
        self.open = False
        self.outcome = outcome
        self.tasks.close()
        self._end_run()
        for identity in list(self._updates):
            self._answer(identity, UpdateRefused("the workflow is closed"))

    # -- commands

    def _apply_all(self, commands: list[sdk.WorkflowCommand]) -> None:
        for command in commands:
            if not self.open:
                return
            self._apply(command)
            if ends(command):
                return

    def _apply(self, command: sdk.WorkflowCommand) -> None:
        match command.WhichOneof("variant"):
            case "schedule_activity":
                self.activities.schedule(command.schedule_activity)
            case "request_cancel_activity":
                self.activities.cancel(command.request_cancel_activity.seq)
            case "start_timer":
                self._start_timer(command.start_timer)
            case "cancel_timer":
                if timer := self._timers.pop(command.cancel_timer.seq, None):
                    timer.cancel()
            case "update_response":
                self._update_answered(command.update_response)
            case "complete_workflow_execution":
                self.close("completed")
                if ATTENTION.name in self.indexed:
                    self._world.found("Temporal's lists show another end", f"{self.run.workflow_id}: {self.indexed}")
            case "cancel_workflow_execution":
                self.close("cancelled")
            case "fail_workflow_execution":
                self.failure = sdk.failure_of(command.fail_workflow_execution.failure, self._world.converter)
                self.close("failed")
            case "continue_as_new_workflow_execution":
                self._continue(command.continue_as_new_workflow_execution)
            case "upsert_workflow_search_attributes":
                self._index(command.upsert_workflow_search_attributes.search_attributes.indexed_fields)
            case _:
                pass  # markers and memo change nothing that a lifecycle can notice

    def _index(self, changed: Mapping[str, Payload]) -> None:
        indexed = {**self.run.indexed, **changed}
        self.run.indexed = {name: value for name, value in indexed.items() if not sdk.is_null(value)}

    def _end_run(self) -> None:
        for timer in self._timers.values():
            timer.cancel()
        self.activities.close()
        for worker in self._world.workers:
            worker.evict(self.run)

    def _continue(self, command: sdk.ContinueAsNewWorkflowExecution) -> None:
        self._end_run()
        before, world = self.run, self._world
        run_id = f"{before.run_ids[0].rpartition('.')[0]}.{len(before.run_ids)}"
        self._timers = {}
        self.run = Run(
            workflow_id=before.workflow_id,
            lifecycle=before.lifecycle,
            run_ids=[*before.run_ids, run_id],
            args=list(command.arguments),
            memo=dict(command.memo) or before.memo,
            started=world.temporal.now,
            randomness=world.seed_of(run_id),
            renews_after=world.renews_after(),
            task_time=world.temporal.now,
            indexed_at_start=dict(command.search_attributes.indexed_fields) or before.indexed,
            inbox=[(job, events) for job, events in before.inbox if not job.HasField("resolve_activity")],
        )
        self.activities = Activities(world, self.run, self._add_job)
        self.tasks.go_on_in(self.run, self.activities)
        world.count_run(self)
        self.tasks.wake()

    def _add_job(self, job: sdk.WorkflowActivationJob, events: int) -> None:
        self.tasks.add_job(job, events)

    def _start_timer(self, command: sdk.StartTimer) -> None:
        seq, seconds = command.seq, command.start_to_fire_timeout.ToTimedelta().total_seconds()
        timers = self._timers

        def fires() -> None:
            del timers[seq]
            job = sdk.WorkflowActivationJob()
            job.fire_timer.seq = seq
            self.tasks.add_job(job)

        timers[seq] = self._world.loop.call_later(seconds, fires)

    # -- updates

    def _update_answered(self, response: sdk.UpdateResponse) -> None:
        identity = response.protocol_instance_id
        if response.HasField("rejected"):
            failure = sdk.failure_of(response.rejected, self._world.converter)
            if TakenOver.is_reason(failure) and self.open:
                self._world.loop.call_later(0.5, self._send_again, *self._updates.pop(identity))
            else:
                self._answer(identity, UpdateRefused(str(failure)))
        elif not response.HasField("accepted"):
            self._answer(identity, None)

    def _send_again(self, job: sdk.WorkflowActivationJob, answer: asyncio.Future[None]) -> None:
        """As Perdure's client does."""
        if self.open:
            self._send(job, answer, SENT_AGAIN)
        elif not answer.done():
            answer.set_exception(UpdateRefused("the workflow is closed"))
            answer.exception()

    def _lose_update(self, identity: str) -> None:
        self._answer(identity, UpdateRefused("lost with its workflow task"))

    def _answer(self, identity: str, error: Exception | None) -> None:
        _, answer = self._updates.pop(identity, (None, None))
        if answer is None or answer.done():
            return
        if error is None:
            answer.set_result(None)
        else:
            answer.set_exception(error)
            answer.exception()  # no code has to read it
