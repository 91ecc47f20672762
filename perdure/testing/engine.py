"""A workflow class, run in milliseconds: the SDK's own workflow instance, scripted ends, a virtual clock.

This is no second engine: it does a server's part of the talk and leaves the workflow's part to the SDK.
"""

from __future__ import annotations

import heapq
import itertools
import uuid
from collections.abc import Awaitable, Callable, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Final, Literal, TypeAlias

from temporalio.api.common.v1 import Payload
from temporalio.api.failure.v1 import Failure
from temporalio.contrib.pydantic import pydantic_data_converter
from temporalio.converter import DataConverter
from temporalio.worker import Interceptor

from perdure.testing import engine_jobs as sdk
from perdure.testing.engine_jobs import ActivityCall as ActivityCall
from perdure.testing.engine_jobs import ActivityEnd as ActivityEnd
from perdure.testing.engine_jobs import Cancelled as Cancelled
from perdure.testing.engine_jobs import Completed as Completed
from perdure.testing.engine_jobs import Failed as Failed
from perdure.testing.engine_jobs import RunawayWorkflow as RunawayWorkflow
from perdure.testing.engine_jobs import TimedOut as TimedOut
from perdure.testing.engine_jobs import WorkflowTaskFailed as WorkflowTaskFailed

BLOCKED: Final = "blocked"
START: Final = datetime(2030, 1, 1, tzinfo=UTC)

EndKind: TypeAlias = Literal["completed", "failed", "cancelled", "continued", "blocked"]
When: TypeAlias = Callable[[], bool] | Literal["blocked"] | None

# what goes first at one virtual instant
_AT_ONCE, _ACTIVITY, _MESSAGE, _TIMER = range(4)


class UnsupportedCommand(Exception):
    """The workflow asked for something that has no virtual counterpart, such as a child workflow."""


@dataclass
class Answer:
    """What became of an update or a query; it changes while the workflow runs.

    `waiting` until delivered; then an update is `rejected` by its validator, or `accepted` and later
    `completed` or `failed`, and a query is `completed` or `failed`. `failure` says why it was not completed.
    """

    name: str
    id: str
    data_converter: DataConverter = field(repr=False)
    status: Literal["waiting", "accepted", "rejected", "completed", "failed"] = "waiting"
    failure: BaseException | None = None
    payload: Payload | None = None

    def result(self, as_type: Any = None) -> Any:
        """The decoded result. Raises `failure` if there is one, `LookupError` while there is no result."""
        if self.failure is not None:
            raise self.failure
        if self.payload is None:
            raise LookupError(f"{self.name!r} has no result: it is {self.status}")
        return _decode(self.data_converter, [self.payload], as_type and [as_type])[0]


@dataclass(frozen=True)
class RunEnd:
    """Where a workflow stands when nothing more can happen to it.

    `blocked`: it waits, and no activity, timer or message will ever wake it. `at` is virtual time, `runs`
    counts the runs chained by continue-as-new, `undelivered` names the messages whose moment never came.
    `payloads` hold the result, or the arguments to continue with. `failure` is why a failed one failed.
    """

    kind: EndKind
    at: datetime
    runs: int
    undelivered: tuple[str, ...]
    payloads: tuple[Payload, ...]
    failure: BaseException | None
    raw_memo: Mapping[str, Payload]
    data_converter: DataConverter = field(repr=False, compare=False)

    def result(self, as_type: Any = None) -> Any:
        """What the workflow returned. Raises `failure` if it failed, `LookupError` if it did not complete."""
        if self.failure is not None:
            raise self.failure
        if self.kind != "completed":
            raise LookupError(f"the workflow has no result: it is {self.kind}")
        return _decode(self.data_converter, self.payloads, as_type and [as_type])[0]

    def args(self, types: list[Any] | None = None) -> list[Any]:
        """The arguments to continue with; empty unless `continued`."""
        return _decode(self.data_converter, self.payloads, types) if self.kind == "continued" else []

    @property
    def memo(self) -> dict[str, Any]:
        """The memo at the end; of a workflow that continues as new, the next run's."""
        return {key: _decode(self.data_converter, [value], None)[0] for key, value in self.raw_memo.items()}


class VirtualWorkflow:
    """One workflow execution and its virtual world.

    `on_activity` is awaited once for each activity, in the order in which they were scheduled, and says how
    the activity ends and how much virtual time that takes: retries are not played, and time-outs end nothing
    by themselves. It may send messages and ask queries; it must not sleep. Once a run's history has
    `continue_as_new_after` events, it is suggested to continue as new.

    After `run` the workflow is put away. Inside `async with` it stays until the block ends: a blocked one
    can be sent more messages and run further, and one that ended can still be asked queries.
    """

    def __init__(
        self,
        workflow_class: type,
        args: Sequence[Any] = (),
        *,
        workflow_id: str,
        on_activity: Callable[[ActivityCall], Awaitable[ActivityEnd]],
        memo: Mapping[str, Any] | None = None,
        start: datetime = START,
        data_converter: DataConverter = pydantic_data_converter,
        interceptors: Sequence[Interceptor] = (),
        failure_exception_types: Sequence[type[BaseException]] = (),
        task_queue: str = "rehearsal",
        namespace: str = "default",
        seed: int = 0,
        follow_continue_as_new: bool = False,
        continue_as_new_after: int = 4096,
        max_activations: int = 10_000,
    ) -> None:
        if start.tzinfo is None:
            raise ValueError("start must say its time zone")
        self._host = sdk.Host(
            workflow_class, data_converter, interceptors, failure_exception_types, namespace, task_queue
        )
        self._on_activity = on_activity
        self._workflow_id, self._seed, self._start, self._now = workflow_id, seed, start, start
        self._follows, self._suggest_at = follow_continue_as_new, continue_as_new_after
        self._activations_left = itertools.count(max_activations, -1)
        self._args = self._encode(args)
        self._memo = {key: self._encode([value])[0] for key, value in (memo or {}).items()}
        self._memo_at_start = self._memo
        self._search_attributes: dict[str, Payload] = {}
        self._headers: dict[str, Payload] = {}
        self._run_ids: list[str] = []
        self._run: sdk.Run | None = None
        self._end: RunEnd | None = None
        self._stays = self._closed = self._driven = False
        self._order = itertools.count()
        self._queue: list[_Due] = []
        self._conditional: list[tuple[Callable[[], bool], _Due]] = []
        self._when_blocked: list[_Due] = []
        self._answers: dict[str, Answer] = {}
        # of the run that is on
        self._timers: dict[int, _Due] = {}
        self._activities: dict[int, _InFlight] = {}
        self._scheduled: list[_InFlight] = []  # by the last activation

    @property
    def now(self) -> datetime:
        """The virtual time."""
        return self._now

    async def __aenter__(self) -> VirtualWorkflow:
        self._stays = True
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def run(self) -> RunEnd:
        """Drive the workflow until it ends or is blocked.

        Raises `WorkflowTaskFailed`, `UnsupportedCommand`, `RunawayWorkflow`, and whatever `on_activity`
        raises; the workflow is put away then. `RuntimeError` if it ended or was put away before.
        """
        if self._closed or self._end or self._driven:
            raise RuntimeError(f"workflow {self._workflow_id!r} is running, ended or put away: it cannot run")
        self._driven = True
        try:
            end = await self._step()
            while end is None:
                end = await self._step()
        except BaseException:
            await self.close()
            raise
        finally:
            self._driven = False
        if not self._stays:
            await self.close()
        return end

    async def close(self) -> None:
        """Put the workflow away, with all of its tasks ended. Harmless when repeated."""
        self._closed = True
        await self._evict()

    def signal(self, name: str, *args: Any, at: timedelta | None = None, when: When = None) -> None:
        """Send a signal: `at` this long after the start, `when` a condition holds, or else at once.

        At once means with the start if the workflow has not started, and out of `on_activity` it means
        before that activity's end. Conditions are looked at between activations; messages for `BLOCKED` go
        out one by one, each when the one before has led nowhere any more.
        """
        job = sdk.WorkflowActivationJob()
        job.signal_workflow.signal_name = name
        job.signal_workflow.input.extend(self._encode(args))
        self._send(f"signal {name}", job, 1, at, when)

    def cancel(self, reason: str = "", *, at: timedelta | None = None, when: When = None) -> None:
        """Request the workflow's cancellation; the moment is given as for `signal`."""
        job = sdk.WorkflowActivationJob()
        job.cancel_workflow.reason = reason
        self._send("cancel", job, 1, at, when)

    def update(self, id: str, name: str, *args: Any, at: timedelta | None = None, when: When = None) -> Answer:
        """Send an update; the moment is given as for `signal`. An id that is in use gives that answer."""
        known = self._answers.get(id)
        if known and known.status != "rejected":
            return known
        job = sdk.WorkflowActivationJob()
        job.do_update.id = job.do_update.protocol_instance_id = id
        job.do_update.name = name
        job.do_update.input.extend(self._encode(args))
        job.do_update.run_validator = True
        self._send(f"update {name}", job, 0, at, when)
        answer = self._answers[id] = Answer(name, id, self._host.data_converter)
        return answer

    def query(self, name: str, *args: Any, at: timedelta | None = None, when: When = None) -> Answer:
        """Ask a query at a moment that is given as for `signal`."""
        job, answer = self._query_job(name, args)
        self._send(f"query {name}", job, None, at, when)
        return answer

    async def ask(self, name: str, *args: Any, as_type: Any = None) -> Any:
        """Ask a query now and return the decoded result, or raise the query's failure.

        `RuntimeError` if the workflow has not started or is put away.
        """
        if self._run is None:
            raise RuntimeError(f"workflow {self._workflow_id!r} is not there to answer {name!r}")
        job, answer = self._query_job(name, args)
        for command in await self._run.activate([job], None, self._now):
            self._obey(command)
        return answer.result(as_type)

    def _query_job(self, name: str, args: Sequence[Any]) -> tuple[sdk.WorkflowActivationJob, Answer]:
        answer = Answer(name, f"query {next(self._order)}", self._host.data_converter)
        self._answers[answer.id] = answer
        job = sdk.WorkflowActivationJob()
        job.query_workflow.query_id = answer.id
        job.query_workflow.query_type = name
        job.query_workflow.arguments.extend(self._encode(args))
        return job, answer

    def _send(
        self, label: str, job: sdk.WorkflowActivationJob, events: int | None, at: timedelta | None, when: When
    ) -> None:
        if at is not None and when is not None:
            raise ValueError(f"{label}: either `at` or `when`, not both")
        if self._closed or self._end:
            raise RuntimeError(f"{label}: workflow {self._workflow_id!r} has ended or is put away")
        moment = self._now if at is None else self._start + at
        rank = _AT_ONCE if at is None else _MESSAGE
        due = _Due(moment, rank, next(self._order), job, events, label)
        if when is None:
            heapq.heappush(self._queue, due)
        elif when == BLOCKED:
            self._when_blocked.append(due)
        else:
            self._conditional.append((when, due))

    async def _step(self) -> RunEnd | None:
        if self._run is None:
            return await self._begin()
        due = self._next()
        if due is None:
            return self._ended("blocked")
        self._now = max(self._now, due.at)
        if due.job.HasField("resolve_activity"):
            del self._activities[due.job.resolve_activity.seq]
        return await self._advance([due.job], due.events)

    def _next(self) -> _Due | None:
        for condition, due in list(self._conditional):
            if condition():
                self._conditional.remove((condition, due))
                due.at = self._now
                heapq.heappush(self._queue, due)
        while self._queue:
            due = heapq.heappop(self._queue)
            if not due.dropped:
                return due
        return self._when_blocked.pop(0) if self._when_blocked else None

    async def _begin(self) -> RunEnd | None:
        self._run_ids.append(str(uuid.uuid5(uuid.NAMESPACE_OID, f"{self._workflow_id} {len(self._run_ids)}")))
        job = sdk.init_job(self._host, self._workflow_id, self._run_ids, self._seed, self._now)
        job.arguments.extend(self._args)
        _fill(job.memo.fields, self._memo)
        _fill(job.search_attributes.indexed_fields, self._search_attributes)
        _fill(job.headers, self._headers)
        self._run = sdk.Run(self._host, self._run_ids[-1], self._now, job, self._suggest_at)
        self._activities, self._timers = {}, {}
        # a query cannot be in an activation with anything else; it is asked right after
        with_start = [due for due in self._queue if due.rank == _AT_ONCE and due.events is not None]
        self._queue = [due for due in self._queue if due not in with_start]
        heapq.heapify(self._queue)
        jobs = [sdk.WorkflowActivationJob(initialize_workflow=job), *(due.job for due in sorted(with_start))]
        return await self._advance(jobs, sum(due.events or 0 for due in with_start))

    async def _advance(self, jobs: Sequence[sdk.WorkflowActivationJob], events: int | None) -> RunEnd | None:
        assert self._run is not None
        if next(self._activations_left) <= 0:
            raise RunawayWorkflow(f"workflow {self._workflow_id!r} went past max_activations at {self._now}")
        self._scheduled = []
        for command in await self._run.activate(jobs, events, self._now):
            self._obey(command)
        if self._end is None:
            await self._play_activities()
        elif self._end.kind == "continued" and self._follows:
            await self._continue()
        return self._end

    async def _play_activities(self) -> None:
        for flight in self._scheduled:
            call = flight.call
            if flight.due is not None:
                continue  # cancelled in the breath that scheduled it: it never starts
            end = await self._on_activity(call)
            if not isinstance(end, ActivityEnd):
                raise TypeError(f"on_activity gave {end!r} for {call.activity_type!r}, which is no end")
            self._resolve(flight, end)

    def _resolve(self, flight: _InFlight, end: ActivityEnd) -> None:
        if flight.due is not None:
            flight.due.dropped = True
        job = sdk.activity_job(flight.call, end)
        # two events of a regular activity: started, and how it ended
        flight.due = self._push(_ACTIVITY, self._now + end.after, job, None if flight.call.is_local else 2)

    def _push(self, rank: int, at: datetime, job: sdk.WorkflowActivationJob, events: int | None) -> _Due:
        due = _Due(at, rank, next(self._order), job, events)
        heapq.heappush(self._queue, due)
        return due

    def _obey(self, command: sdk.WorkflowCommand) -> None:
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
                self._start_timer(command.start_timer)
            case "cancel_timer":
                self._timers[command.cancel_timer.seq].dropped = True
            case "update_response":
                self._update_answered(command.update_response)
            case "respond_to_query":
                self._query_answered(command.respond_to_query)
            case _:
                self._obey_about_workflow(command)

    def _obey_about_workflow(self, command: sdk.WorkflowCommand) -> None:
        match command.WhichOneof("variant"):
            case "complete_workflow_execution":
                self._ended("completed", [command.complete_workflow_execution.result])
            case "fail_workflow_execution":
                self._ended("failed", failure=command.fail_workflow_execution.failure)
            case "cancel_workflow_execution":
                self._ended("cancelled")
            case "continue_as_new_workflow_execution":
                self._continued(command.continue_as_new_workflow_execution)
            case "modify_workflow_properties":
                self._merge_memo(command.modify_workflow_properties.upserted_memo.fields)
            case "upsert_workflow_search_attributes":
                upserted = command.upsert_workflow_search_attributes.search_attributes
                self._search_attributes.update(upserted.indexed_fields)
            case "set_patch_marker":
                pass
            case unknown:
                raise UnsupportedCommand(f"workflow {self._workflow_id!r}: {unknown} cannot be rehearsed")

    def _schedule(self, command: sdk.ScheduleActivity | sdk.ScheduleLocalActivity) -> None:
        call = sdk.activity_call(command, self._now, self._host)
        flight = _InFlight(call, sdk.stays_when_cancelled(command))
        self._activities[call.seq] = flight
        self._scheduled.append(flight)

    def _cancel_activity(self, seq: int) -> None:
        flight = self._activities[seq]
        if flight in self._scheduled or not flight.stays_when_cancelled:
            self._resolve(flight, Cancelled())
            assert flight.due is not None
            flight.due.events = None  # core answers this within the workflow task, without the server

    def _start_timer(self, command: sdk.StartTimer) -> None:
        job = sdk.WorkflowActivationJob()
        job.fire_timer.seq = command.seq
        at = self._now + command.start_to_fire_timeout.ToTimedelta()
        self._timers[command.seq] = self._push(_TIMER, at, job, 1)

    def _update_answered(self, response: sdk.UpdateResponse) -> None:
        answer = self._answers[response.protocol_instance_id]
        if response.HasField("accepted"):
            answer.status = "accepted"
        elif response.HasField("rejected"):
            # one word for both: a refusal by the validator, and a failure of the handler later
            answer.status = "failed" if answer.status == "accepted" else "rejected"
            answer.failure = sdk.failure_of(response.rejected, self._host.data_converter)
        else:
            answer.status, answer.payload = "completed", response.completed

    def _query_answered(self, response: sdk.QueryResult) -> None:
        answer = self._answers.pop(response.query_id)
        if response.HasField("failed"):
            answer.status = "failed"
            answer.failure = sdk.failure_of(response.failed, self._host.data_converter)
        else:
            answer.status, answer.payload = "completed", response.succeeded.response

    def _merge_memo(self, upserted: Mapping[str, Payload]) -> None:
        merged = {**self._memo, **upserted}
        self._memo = {key: value for key, value in merged.items() if not sdk.is_null(value)}

    def _continued(self, command: sdk.ContinueAsNewWorkflowExecution) -> None:
        if command.workflow_type not in ("", self._host.workflow_type):
            raise UnsupportedCommand(f"continue as new as another workflow: {command.workflow_type}")
        self._args = list(command.arguments)
        # without a new one the next run gets the memo of this run's start, not what this run made of it
        self._memo = self._memo_at_start = dict(command.memo) or self._memo_at_start
        self._search_attributes = dict(command.search_attributes.indexed_fields) or self._search_attributes
        self._headers = dict(command.headers)
        self._ended("continued", self._args)
        self._now += command.backoff_start_interval.ToTimedelta()

    async def _continue(self) -> None:
        await self._evict()
        self._end = None
        self._queue = [due for due in self._queue if due.label]  # messages are for the workflow, not the run

    def _ended(self, kind: EndKind, payloads: Sequence[Payload] = (), failure: Failure | None = None) -> RunEnd:
        waiting = [*sorted(self._queue), *(due for _, due in self._conditional), *self._when_blocked]
        end = RunEnd(
            kind=kind,
            at=self._now,
            runs=len(self._run_ids),
            undelivered=tuple(due.label for due in waiting if due.label),
            payloads=tuple(payloads),
            failure=None if failure is None else sdk.failure_of(failure, self._host.data_converter),
            raw_memo=self._memo,
            data_converter=self._host.data_converter,
        )
        if kind != "blocked":
            self._end = end
        return end

    async def _evict(self) -> None:
        run, self._run = self._run, None
        if run is not None:
            await run.evict(self._now)

    def _encode(self, values: Sequence[Any]) -> list[Payload]:
        return list(self._host.data_converter.payload_converter.to_payloads(values)) if values else []


@dataclass(order=True)
class _Due:
    """A job and its moment. `events`: how many it adds to the history, `None` if it makes no new task."""

    at: datetime
    rank: int
    order: int
    job: sdk.WorkflowActivationJob = field(compare=False)
    events: int | None = field(compare=False)
    label: str = field(compare=False, default="")
    dropped: bool = field(compare=False, default=False)


@dataclass(eq=False)
class _InFlight:
    call: ActivityCall
    stays_when_cancelled: bool
    due: _Due | None = None


def _decode(converter: DataConverter, payloads: Sequence[Payload], types: list[Any] | None) -> list[Any]:
    return converter.payload_converter.from_payloads(payloads, types)


def _fill(fields: MutableMapping[str, Payload], values: Mapping[str, Payload]) -> None:
    for key, value in values.items():
        fields[key].CopyFrom(value)
