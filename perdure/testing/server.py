"""A workflow class, run in milliseconds: the SDK's own workflow instance, scripted ends, a virtual clock.

This is no second Temporal server: it does a server's part of the talk and leaves the workflow's part to the SDK.
"""

from __future__ import annotations

import itertools
import uuid
from collections.abc import Awaitable, Callable, Mapping, MutableMapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from temporalio.api.common.v1 import Payload
from temporalio.contrib.pydantic import pydantic_data_converter
from temporalio.converter import DataConverter
from temporalio.worker import Interceptor

from perdure.testing import server_jobs as sdk
from perdure.testing.server_activities import ActivityCall as ActivityCall
from perdure.testing.server_activities import ActivityEnd as ActivityEnd
from perdure.testing.server_activities import Cancelled as Cancelled
from perdure.testing.server_activities import Completed as Completed
from perdure.testing.server_activities import Failed as Failed
from perdure.testing.server_activities import TimedOut as TimedOut
from perdure.testing.server_activities import UnderWay as UnderWay
from perdure.testing.server_agenda import AT_ONCE, MESSAGE, When
from perdure.testing.server_agenda import BLOCKED as BLOCKED
from perdure.testing.server_ends import Answer as Answer
from perdure.testing.server_ends import RunEnd as RunEnd
from perdure.testing.server_execution import Execution, InFlight
from perdure.testing.server_execution import UnsupportedCommand as UnsupportedCommand
from perdure.testing.server_jobs import WorkflowTaskFailed as WorkflowTaskFailed
from perdure.testing.server_watch import RunawayWorkflow as RunawayWorkflow

START: Final = datetime(2030, 1, 1, tzinfo=UTC)


class VirtualWorkflow:
    """One workflow execution and its virtual world.

    `on_activity` is awaited once for each activity, in the order in which they were scheduled, but for the local ones
    of a workflow task first. It returns how the activity ends and how much virtual time that takes, or that it is
    under way. Retries are not played, and time-outs end nothing by themselves. It may send messages and queries; it
    must not sleep. The server suggests to a run to continue as new once its history has `continue_as_new_after`
    events, or `continue_as_new_when` returns true at the beginning of a workflow task.

    After `run` the workflow is put away. Inside `async with` it stays until the block ends: a blocked one
    can be sent more messages and run further, and one that ended can still be asked queries.
    """

    def __init__(
        self,
        workflow_class: type,
        args: Sequence[Any] = (),
        *,
        workflow_id: str,
        on_activity: Callable[[ActivityCall], Awaitable[ActivityEnd | UnderWay]],
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
        continue_as_new_when: Callable[[], bool] = lambda: False,
        max_activations: int = 10_000,
    ) -> None:
        if start.tzinfo is None:
            raise ValueError("start must have a time zone")
        self._host = sdk.Host(
            workflow_class, data_converter, interceptors, failure_exception_types, namespace, task_queue
        )
        self._on_activity = on_activity
        self._workflow_id, self._seed, self._start = workflow_id, seed, start
        self._follows, self._suggest_at = follow_continue_as_new, continue_as_new_after
        self._suggests = continue_as_new_when
        self._activations_left = itertools.count(max_activations, -1)
        kept = {key: self._encode([value])[0] for key, value in (memo or {}).items()}
        self._execution = Execution(self._host, workflow_id, start, self._encode(args), kept)
        self._run: sdk.Run | None = None
        self._stays = self._closed = self._driven = False
        self._queries = itertools.count()
        self.moves: int = 0
        """The number of messages and timers that the workflow has received."""

    @property
    def now(self) -> datetime:
        """The virtual time."""
        return self._execution.now

    @property
    def started(self) -> bool:
        """Whether it is there to be asked: started, and not put away."""
        return self._run is not None

    @property
    def runs(self) -> int:
        """How many runs there were, this one included."""
        return len(self._execution.run_ids)

    @property
    def busy(self) -> bool:
        """Whether an activity is under way."""
        return self._execution.busy

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
        if self._closed or self._execution.end or self._driven:
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
        known = self._execution.answers.get(id)
        if known and known.status != "rejected":
            return known
        job = sdk.WorkflowActivationJob()
        job.do_update.id = job.do_update.protocol_instance_id = id
        job.do_update.name = name
        job.do_update.input.extend(self._encode(args))
        job.do_update.run_validator = True
        self._send(f"update {name}", job, 0, at, when)
        answer = self._execution.answers[id] = Answer(name, id, self._host.data_converter)
        return answer

    def query(self, name: str, *args: Any, at: timedelta | None = None, when: When = None) -> Answer:
        """Ask a query at a moment that is given as for `signal`."""
        job, answer = self._query_job(name, args)
        self._send(f"query {name}", job, None, at, when)
        return answer

    def outside(self, happens: Callable[[], Awaitable[None]], *, after: timedelta) -> None:
        """Let something happen outside of the workflow, `after` this much time from now; it may send messages."""
        agenda = self._execution.agenda
        agenda.add(agenda.due(self.now + after, MESSAGE, None, None, "outside", happens))

    async def ask(self, name: str, *args: Any, as_type: Any = None) -> Any:
        """Ask a query now and return the decoded result, or raise the query's failure.

        `RuntimeError` if the workflow has not started or is put away.
        """
        if self._run is None:
            raise RuntimeError(f"workflow {self._workflow_id!r} is not there to answer {name!r}")
        job, answer = self._query_job(name, args)
        self._execution.apply(await self._run.activate([job], None, self.now))
        return answer.result(as_type)

    def _query_job(self, name: str, args: Sequence[Any]) -> tuple[sdk.WorkflowActivationJob, Answer]:
        answer = Answer(name, f"query {next(self._queries)}", self._host.data_converter)
        self._execution.answers[answer.id] = answer
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
        if self._closed or self._execution.end:
            raise RuntimeError(f"{label}: workflow {self._workflow_id!r} has ended or is put away")
        moment = self.now if at is None else self._start + at
        agenda = self._execution.agenda
        agenda.add(agenda.due(moment, AT_ONCE if at is None else MESSAGE, job, events, label), when)

    async def _step(self) -> RunEnd | None:
        execution = self._execution
        if self._run is None:
            return await self._begin()
        due = await execution.agenda.next(self.now)
        if due is None:
            return execution.ended("blocked")
        execution.now = max(self.now, due.at)
        if due.outside is not None:
            await due.outside()
            return None
        assert due.job is not None
        execution.delivered(due.job)
        self.moves += not due.job.HasField("resolve_activity") and due.events is not None
        return await self._advance([due.job], due.events)

    async def _begin(self) -> RunEnd | None:
        execution = self._execution
        execution.begin(str(uuid.uuid5(uuid.NAMESPACE_OID, f"{self._workflow_id} {len(execution.run_ids)}")))
        job = sdk.init_job(self._host, self._workflow_id, execution.run_ids, self._seed, self.now)
        job.arguments.extend(execution.args)
        _fill(job.memo.fields, execution.memo)
        _fill(job.search_attributes.indexed_fields, execution.search_attributes)
        _fill(job.headers, execution.headers)
        self._run = sdk.Run(self._host, execution.run_ids[-1], self.now, job, self._suggest_at)
        with_start = execution.agenda.take_with_start()
        jobs = [due.job for due in with_start if due.job is not None]
        first = sdk.WorkflowActivationJob(initialize_workflow=job)
        return await self._advance([first, *jobs], sum(due.events or 0 for due in with_start))

    async def _advance(self, jobs: Sequence[sdk.WorkflowActivationJob], events: int | None) -> RunEnd | None:
        assert self._run is not None
        execution = self._execution
        if next(self._activations_left) <= 0:
            raise RunawayWorkflow(f"workflow {self._workflow_id!r} went past max_activations at {self.now}")
        execution.scheduled = []
        execution.apply(await self._run.activate(jobs, events, self.now, suggest=self._suggests()))
        if execution.end is None:
            await self._play_activities()
        elif execution.end.kind == "continued" and self._follows:
            await self._evict()
            execution.end = None
            execution.agenda.forget_run()
        return execution.end

    async def _play_activities(self) -> None:
        # The server gets the others at the end of the workflow task, when the local activities are over.
        for flight in sorted(self._execution.scheduled, key=lambda each: not each.call.is_local):
            call = flight.call
            if flight.due is not None:
                continue  # cancelled in the breath that scheduled it: it never starts
            self._goes_on(flight, await self._on_activity(call))

    def _goes_on(self, flight: InFlight, end: ActivityEnd | UnderWay) -> None:
        if isinstance(end, UnderWay):
            going = end

            async def later() -> None:
                self._goes_on(flight, await going.goes_on())

            self.outside(later, after=end.after)
        elif not isinstance(end, ActivityEnd):
            raise TypeError(f"on_activity gave {end!r} for {flight.call.activity_type!r}, which is no end")
        elif flight.due is None:  # else it was cancelled meanwhile
            self._execution.resolve(flight, end)

    async def _evict(self) -> None:
        run, self._run = self._run, None
        if run is not None:
            await run.evict(self.now)

    def _encode(self, values: Sequence[Any]) -> list[Payload]:
        return list(self._host.data_converter.payload_converter.to_payloads(values)) if values else []


def _fill(fields: MutableMapping[str, Payload], values: Mapping[str, Payload]) -> None:
    for key, value in values.items():
        fields[key].CopyFrom(value)
