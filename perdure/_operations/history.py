"""The part of Temporal's history that concerns an entity: its attempts and look-ups, and what it waits for."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from google.protobuf.timestamp_pb2 import Timestamp
from temporalio.api.common.v1 import Memo, Payload
from temporalio.api.enums.v1 import EventType, TimeoutType
from temporalio.api.history.v1 import HistoryEvent
from temporalio.client import Client
from temporalio.converter import DataConverter
from temporalio.service import RPCError

from perdure._crypto.codec import opened
from perdure._retention.histories import listed_runs
from perdure._wire.carried import CARRIED, Carried
from perdure._wire.orders import CallResult, Report
from perdure.errors import Unopenable

RUNS = 10
"""Runs that are read, the newest ones: each restart is one, and each time that a long life goes on in a new one."""
EVENTS = 5000
"""Events that are read of one run."""
PAGE = 256
"""Events of an answer: Temporal gives no more, and logs a warning where more are requested."""
UNDER_WAY = "under way"

_SUMMARY = re.compile(r"(?P<slot>.+): (?P<kind>attempt|look-up) (?P<number>\d+)")
_LOST = (
    EventType.EVENT_TYPE_ACTIVITY_TASK_FAILED,
    EventType.EVENT_TYPE_ACTIVITY_TASK_TIMED_OUT,
    EventType.EVENT_TYPE_ACTIVITY_TASK_CANCELED,
)


@dataclass(frozen=True, slots=True)
class Try:
    """One attempt or look-up.

    Attributes:
        kind: `attempt` or `look-up`.
        effect: of which it is one, suffix included.
        worker: identity of who made it; None where nobody began it, or it ran inside a workflow task.
        took: seconds; None = not known.
        outcome: as in `activity.orders.CallResult`; `lost` = no answer came; `under way`.
        generation: of the entity; None = the memo of its run can't be read here.
    """

    kind: str
    effect: str
    number: int
    ordered: datetime
    began: datetime | None = None
    took: float | None = None
    worker: str | None = None
    inline: bool = False
    outcome: str = UNDER_WAY
    why: str | None = None
    receipt: Any = None
    generation: int | None = None


@dataclass(slots=True)
class History:
    """What was read.

    Attributes:
        runs: ids of the runs, the oldest first.
        tries: in the order in which they were ordered.
        timers: of the newest run: for what, and until when it waits.
        activities: what each activity of the newest run is, by its id.
        worker: who took the newest workflow task.
        cut: whether there is more than was read.
        unread: why some of it can't be read: a key is missing.
    """

    runs: list[str] = field(default_factory=list)
    tries: list[Try] = field(default_factory=list)
    timers: list[tuple[str, datetime]] = field(default_factory=list)
    activities: dict[str, str] = field(default_factory=dict)
    worker: str | None = None
    cut: bool = False
    unread: str | None = None

    def under_way(self, what: str, began: datetime | None, worker: str | None) -> None:
        """Who has an attempt or a look-up that did not end yet."""
        self.tries = [
            replace(each, began=began, worker=worker)
            if each.outcome == UNDER_WAY and what == f"{each.effect}: {each.kind} {each.number}"
            else each
            for each in self.tries
        ]


async def read_history(client: Client, workflow_id: str, newest: str) -> History:
    """Read the runs of a workflow id, of which `newest` is the last. Raises RPCError."""
    found = History()
    found.runs, found.cut = await _runs(client, workflow_id, newest)
    for run in found.runs:
        reading = _Reading(client.data_converter)
        events = client.get_workflow_handle(workflow_id, run_id=run).fetch_history_events(page_size=PAGE)
        async for event in events:
            await reading.take(event)
            if event.event_id >= EVENTS:
                found.cut = True
                break
        found.tries += reading.tries.values()
        found.unread = found.unread or reading.unread
        found.timers, found.activities, found.worker = reading.waits, reading.activities, reading.worker
    return found


async def _runs(client: Client, workflow_id: str, newest: str) -> tuple[list[str], bool]:
    """Ids of its runs that Temporal keeps, and whether there are more. Lists come late, so the newest is given."""
    seen: dict[str, datetime] = {}
    try:
        async for each in listed_runs(client, workflow_id):
            seen[each.run_id] = each.start_time
            if len(seen) > RUNS:
                break
    except RPCError:  # the newest is known without a list
        pass
    runs = [run for run in sorted(seen, key=seen.__getitem__) if run != newest]
    return [*runs[-(RUNS - 1) :], newest], len(runs) >= RUNS


class _Reading:
    """Takes the events of one run, one after the other."""

    def __init__(self, converter: DataConverter) -> None:
        self.tries: dict[int, Try] = {}
        self.activities: dict[str, str] = {}
        self.worker: str | None = None
        self.unread: str | None = None
        self._generation: int | None = None
        self._timers: dict[int, tuple[str, datetime]] = {}
        self._converter = converter

    @property
    def waits(self) -> list[tuple[str, datetime]]:
        """Timers that ring later."""
        return list(self._timers.values())

    async def take(self, event: HistoryEvent) -> None:
        """Learn from one event."""
        kind = event.event_type
        if kind == EventType.EVENT_TYPE_WORKFLOW_EXECUTION_STARTED:
            self._generation = await self._generation_of(event.workflow_execution_started_event_attributes.memo)
        elif kind == EventType.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED:
            await self._scheduled(event)
        elif kind == EventType.EVENT_TYPE_ACTIVITY_TASK_STARTED:
            self._started(event)
        elif kind == EventType.EVENT_TYPE_ACTIVITY_TASK_COMPLETED:
            done = event.activity_task_completed_event_attributes
            await self._ended(event, done.scheduled_event_id, done.result.payloads)
        elif kind in _LOST:
            await self._lost(event)
        elif kind == EventType.EVENT_TYPE_MARKER_RECORDED:
            await self._marked(event)
        elif kind == EventType.EVENT_TYPE_TIMER_STARTED:
            asked = event.timer_started_event_attributes.start_to_fire_timeout.ToTimedelta()
            self._timers[event.event_id] = await self._summary(event), _time(event.event_time) + asked
        elif kind == EventType.EVENT_TYPE_TIMER_FIRED:
            self._timers.pop(event.timer_fired_event_attributes.started_event_id, None)
        elif kind == EventType.EVENT_TYPE_TIMER_CANCELED:
            self._timers.pop(event.timer_canceled_event_attributes.started_event_id, None)
        elif kind == EventType.EVENT_TYPE_WORKFLOW_TASK_STARTED:
            self.worker = event.workflow_task_started_event_attributes.identity or None

    async def _scheduled(self, event: HistoryEvent) -> None:
        summary = await self._summary(event)
        self.activities[event.activity_task_scheduled_event_attributes.activity_id] = summary
        self._order(event, summary)

    def _order(self, event: HistoryEvent, summary: str) -> Try | None:
        found = _SUMMARY.fullmatch(summary)
        if found is None:  # bookkeeping
            return None
        ordered = _time(event.event_time)
        made = Try(found["kind"], found["slot"], int(found["number"]), ordered, generation=self._generation)
        self.tries[event.event_id] = made
        return made

    def _started(self, event: HistoryEvent) -> None:
        started = event.activity_task_started_event_attributes
        self._change(started.scheduled_event_id, began=_time(event.event_time), worker=started.identity or None)

    async def _ended(self, event: HistoryEvent, ordered: int, result: Iterable[Payload]) -> None:
        made = self.tries.get(ordered)
        if made is None:
            return
        report = await self._report(list(result))
        took = (_time(event.event_time) - made.began).total_seconds() if made.began else None
        self._change(ordered, took=took, **_fields_of(report))

    async def _lost(self, event: HistoryEvent) -> None:
        why, ordered = "its worker was lost", 0
        if event.HasField("activity_task_timed_out_event_attributes"):
            timed_out = event.activity_task_timed_out_event_attributes
            ordered, kind = timed_out.scheduled_event_id, timed_out.failure.timeout_failure_info.timeout_type
            why = f"no answer: {TimeoutType.Name(kind).removeprefix('TIMEOUT_TYPE_').lower().replace('_', ' ')}"
        elif event.HasField("activity_task_failed_event_attributes"):
            failed = event.activity_task_failed_event_attributes
            ordered, why = failed.scheduled_event_id, (await opened(failed.failure, self._converter)).message
        elif event.HasField("activity_task_canceled_event_attributes"):
            ordered = event.activity_task_canceled_event_attributes.scheduled_event_id
        made = self.tries.get(ordered)
        took = (_time(event.event_time) - made.began).total_seconds() if made and made.began else None
        self._change(ordered, took=took, outcome="lost", why=why)

    async def _marked(self, event: HistoryEvent) -> None:
        marker = event.marker_recorded_event_attributes
        made = self._order(event, await self._summary(event)) if marker.marker_name == "core_local_activity" else None
        if made is None:
            return
        if marker.HasField("failure"):
            why = (await opened(marker.failure, self._converter)).message
            self._change(event.event_id, inline=True, outcome="lost", why=why)
            return
        report = await self._report(list(marker.details["result"].payloads))
        began = await self._began(list(marker.details["data"].payloads))
        view = report.effect if report else None
        # By the database's clock: the marker has no time of its own for the end.
        ended = view.first_at + timedelta(seconds=view.since_first) if view and view.first_at else None
        took = max((ended - began).total_seconds(), 0.0) if ended and began else None
        self._change(event.event_id, inline=True, began=began, took=took, **_fields_of(report))

    def _change(self, ordered: int, **more: Any) -> None:
        made = self.tries.get(ordered)
        if made is not None:
            self.tries[ordered] = replace(made, **more)

    async def _generation_of(self, memo: Memo) -> int | None:
        try:
            [carried] = await self._converter.decode([memo.fields[CARRIED]], [Carried])
        except Exception:  # as in `_report`
            return None
        return int(carried.generation)

    async def _report(self, payloads: Sequence[Payload]) -> Report | None:
        """None: it can't be read here, as where the app's own codec made it."""
        try:
            [report] = await self._converter.decode(payloads, [Report])
        except Exception:  # whatever a converter raises: one line is less well known, the others are shown
            return None
        return report if isinstance(report, Report) else None

    async def _began(self, payloads: Sequence[Payload]) -> datetime | None:
        try:
            [data] = await self._converter.decode(payloads)
            asked = data["original_schedule_time"]
            return datetime.fromtimestamp(asked["seconds"] + asked["nanos"] / 1e9, UTC)
        except Exception:  # the SDK's own format, which may change
            return None

    async def _summary(self, event: HistoryEvent) -> str:
        if not event.user_metadata.HasField("summary"):
            return ""
        try:
            [text] = await self._converter.decode([event.user_metadata.summary], [str])
        except Exception as error:  # as above
            self.unread = str(error) if isinstance(error, Unopenable) else self.unread
            return ""
        return str(text)


def _fields_of(report: Report | None) -> dict[str, Any]:
    if report is None:
        return {"outcome": "unreadable", "why": "this command can't decode what the worker wrote"}
    receipt = report.receipt if report.receipt is not None else (report.effect and report.effect.receipt)
    why = report.why
    if report.result is CallResult.MISS:
        why = "nothing was in flight any more" if report.believable else "too early to count: it may be in flight"
    return {
        "outcome": report.result.value,
        "why": why,
        "receipt": receipt if report.result is CallResult.DONE else None,
    }


def _time(stamp: Timestamp) -> datetime:
    return stamp.ToDatetime(UTC)
