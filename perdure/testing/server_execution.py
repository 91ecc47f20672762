"""A server's part of one virtual execution: what it keeps of it, and what each command changes there."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from temporalio.api.common.v1 import Payload
from temporalio.api.failure.v1 import Failure
from temporalio.exceptions import TimeoutType

from perdure._workflow.reading import LOOK
from perdure.testing import server_jobs as sdk
from perdure.testing.server_activities import (
    ActivityCall,
    ActivityEnd,
    Cancelled,
    TimedOut,
    activity_call,
    activity_job,
    stays_when_cancelled,
)
from perdure.testing.server_agenda import ACTIVITY, TIMER, Agenda, Due
from perdure.testing.server_ends import Answer, EndKind, RunEnd

_END = datetime.max.replace(tzinfo=UTC)


class UnsupportedCommand(Exception):
    """The workflow asked for something that has no virtual counterpart, such as a child workflow."""


@dataclass(eq=False)
class InFlight:
    """An activity that was scheduled; `due` is its end, once that is known. One that waits for a worker until then can
    be taken back."""

    call: ActivityCall
    stays_when_cancelled: bool
    due: Due | None = None
    waits: bool = False


class Execution:
    """One workflow through all of its runs; see the module."""

    def __init__(
        self, host: sdk.Host, workflow_id: str, now: datetime, args: list[Payload], memo: dict[str, Payload]
    ) -> None:
        self.host: sdk.Host = host
        self.workflow_id: str = workflow_id
        self.now: datetime = now
        self.agenda: Agenda = Agenda()
        self.answers: dict[str, Answer] = {}
        self.run_ids: list[str] = []
        self.end: RunEnd | None = None
        self.scheduled: list[InFlight] = []
        """By the last activation."""
        self.args: list[Payload] = args
        self.memo: dict[str, Payload] = memo
        self.search_attributes: dict[str, Payload] = {}
        self.headers: dict[str, Payload] = {}
        self._memo_at_start = memo
        # of the run that is on
        self._timers: dict[int, Due] = {}
        self._activities: dict[int, InFlight] = {}

    @property
    def busy(self) -> bool:
        """Whether an activity is under way."""
        return bool(self._activities)

    def begin(self, run_id: str) -> None:
        """A new run begins, with nothing under way."""
        self.run_ids.append(run_id)
        self._activities, self._timers = {}, {}

    def apply(self, commands: Iterable[sdk.WorkflowCommand]) -> None:
        """Execute the commands of the workflow."""
        for command in commands:
            self._apply(command)

    def resolve(self, flight: InFlight, end: ActivityEnd) -> None:
        """Let an activity end so; whatever end it had before is forgotten."""
        if flight.due is not None:
            flight.due.dropped = True
        flight.waits = isinstance(end, TimedOut) and end.kind is TimeoutType.SCHEDULE_TO_START
        job = activity_job(flight.call, end)
        # two events of a regular activity: started, and how it ended
        events = None if flight.call.is_local else 2
        flight.due = self.agenda.add(self.agenda.due(self.now + end.after, ACTIVITY, job, events))

    def delivered(self, job: sdk.WorkflowActivationJob) -> None:
        """The workflow is being activated."""
        if job.HasField("resolve_activity"):
            del self._activities[job.resolve_activity.seq]

    def ended(self, kind: EndKind, payloads: Sequence[Payload] = (), failure: Failure | None = None) -> RunEnd:
        """Where it stands now; final unless it is blocked."""
        converter = self.host.data_converter
        end = RunEnd(
            kind=kind,
            at=self.now,
            runs=len(self.run_ids),
            undelivered=self.agenda.undelivered(),
            payloads=tuple(payloads),
            failure=None if failure is None else sdk.failure_of(failure, converter),
            raw_memo=self.memo,
            data_converter=converter,
        )
        if kind != "blocked":
            self.end = end
        return end

    def _apply(self, command: sdk.WorkflowCommand) -> None:
        match command.WhichOneof("variant"):
            case "schedule_activity":
                self._schedule(command.schedule_activity)
            case "schedule_local_activity":
                self._schedule(command.schedule_local_activity)
            case "request_cancel_activity":
                self._cancel_activity(command.request_cancel_activity.seq)
            case "request_cancel_local_activity":
                self._cancel_activity(command.request_cancel_local_activity.seq)
            case "start_timer":
                self._start_timer(command.start_timer, LOOK.encode() in command.user_metadata.summary.data)
            case "cancel_timer":
                self._timers[command.cancel_timer.seq].dropped = True
            case "update_response":
                self._update_answered(command.update_response)
            case "respond_to_query":
                self._query_answered(command.respond_to_query)
            case _:
                self._apply_to_workflow(command)

    def _apply_to_workflow(self, command: sdk.WorkflowCommand) -> None:
        match command.WhichOneof("variant"):
            case "complete_workflow_execution":
                self.ended("completed", [command.complete_workflow_execution.result])
            case "fail_workflow_execution":
                self.ended("failed", failure=command.fail_workflow_execution.failure)
            case "cancel_workflow_execution":
                self.ended("cancelled")
            case "continue_as_new_workflow_execution":
                self._continued(command.continue_as_new_workflow_execution)
            case "modify_workflow_properties":
                self._merge_memo(command.modify_workflow_properties.upserted_memo.fields)
            case "upsert_workflow_search_attributes":
                upserted = command.upsert_workflow_search_attributes.search_attributes
                self.search_attributes.update(upserted.indexed_fields)
            case "set_patch_marker":
                pass
            case unknown:
                raise UnsupportedCommand(f"workflow {self.workflow_id!r}: {unknown} cannot be rehearsed")

    def _schedule(self, command: sdk.ScheduleActivity | sdk.ScheduleLocalActivity) -> None:
        call = activity_call(command, self.now, self.host)
        flight = InFlight(call, stays_when_cancelled(command))
        self._activities[call.seq] = flight
        self.scheduled.append(flight)

    def _cancel_activity(self, seq: int) -> None:
        flight = self._activities[seq]
        if flight in self.scheduled or flight.waits or not flight.stays_when_cancelled:
            self.resolve(flight, Cancelled())
            assert flight.due is not None
            flight.due.events = None  # core answers this within the workflow task, without the server

    def _start_timer(self, command: sdk.StartTimer, is_look: bool) -> None:
        job = sdk.WorkflowActivationJob()
        job.fire_timer.seq = command.seq
        # A wait until the end of all time, as a float of seconds, may end a moment later.
        at = self.now + min(command.start_to_fire_timeout.ToTimedelta(), _END - self.now)
        due = self._timers[command.seq] = self.agenda.due(at, TIMER, job, 1)
        due.is_look = is_look
        self.agenda.add(due)

    def _update_answered(self, response: sdk.UpdateResponse) -> None:
        answer = self.answers[response.protocol_instance_id]
        if response.HasField("accepted"):
            answer.status = "accepted"
        elif response.HasField("rejected"):
            # one word for both: a refusal by the validator, and a failure of the handler later
            answer.status = "failed" if answer.status == "accepted" else "rejected"
            answer.failure = sdk.failure_of(response.rejected, self.host.data_converter)
        else:
            answer.status, answer.payload = "completed", response.completed

    def _query_answered(self, response: sdk.QueryResult) -> None:
        answer = self.answers.pop(response.query_id)
        if response.HasField("failed"):
            answer.status = "failed"
            answer.failure = sdk.failure_of(response.failed, self.host.data_converter)
        else:
            answer.status, answer.payload = "completed", response.succeeded.response

    def _merge_memo(self, upserted: Mapping[str, Payload]) -> None:
        merged = {**self.memo, **upserted}
        self.memo = {key: value for key, value in merged.items() if not sdk.is_null(value)}

    def _continued(self, command: sdk.ContinueAsNewWorkflowExecution) -> None:
        if command.workflow_type not in ("", self.host.workflow_type):
            raise UnsupportedCommand(f"continue as new as another workflow: {command.workflow_type}")
        self.args = list(command.arguments)
        # without a new one the next run gets the memo of this run's start, not what this run made of it
        self.memo = self._memo_at_start = dict(command.memo) or self._memo_at_start
        self.search_attributes = dict(command.search_attributes.indexed_fields) or self.search_attributes
        self.headers = dict(command.headers)
        self.ended("continued", self.args)
        self.now += command.backoff_start_interval.ToTimedelta()
