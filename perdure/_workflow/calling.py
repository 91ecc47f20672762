"""How a run calls an effect or a look-up: as an activity, or inline; once, since the workflow owns the attempts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, TypeAlias

from temporalio import workflow
from temporalio.common import Priority, RetryPolicy
from temporalio.exceptions import ActivityError, ApplicationError, TimeoutError
from temporalio.workflow import ActivityCancellationType

from perdure._wire.orders import Report
from perdure._workflow.passing import Events
from perdure.contracts.effects import SCHEDULE_TO_START_LIMITED, Effect, Lookup
from perdure.contracts.scopes import queue_of, scope_of_workflow

BOOKKEEPING = timedelta(seconds=12)
"""What an activity is given beyond its call: to commit before it and after it."""

SILENCE = timedelta(seconds=5)
"""A worker that sends no heartbeat for so long counts as lost, where nothing else is declared."""

_LOOK_UP_WAITS = timedelta(minutes=5), SILENCE
"""How long a look-up may wait for a worker, and after which silence that worker counts as lost."""

_AT_LEAST = timedelta(milliseconds=1)
"""Temporal takes zero for no time-out at all."""

_AHEAD = Priority(priority_key=1)
"""A question that waits in line behind the calls would come too late to say whether one is to be repeated."""

ONCE = RetryPolicy(maximum_attempts=1)
"""The workflow owns the attempts."""
NO_ANSWER = (ActivityError, ApplicationError, TimeoutError)
"""An activity that gives no answer ends by one of them. Temporal's SDK raises the time-out of a local activity in an
`ActivityError` at first, and alone in a replay."""
_TO_ITS_END = ActivityCancellationType.WAIT_CANCELLATION_COMPLETED
"""What was handed out before it could be taken back ends as it does; what was not is over at once."""

InLine: TypeAlias = workflow.ActivityHandle[Report]


@dataclass(frozen=True, slots=True)
class Way:
    """How it is called.

    Attributes:
        name: activity type.
        inline: as a local activity.
        limited: may be withdrawn while it waits for its turn. Today's contract may have another `limit` than the one
            in the history, and a withdrawal is a command.
        timeout: of its call.
        expires_at: until when it waits for a worker at the longest.
        in_line: is given what waits for its turn, where there is a limit.
    """

    name: str
    inline: bool
    limited: bool
    timeout: timedelta
    expires_at: datetime | None = None
    in_line: Callable[[InLine], None] | None = None


async def call(
    contract: Effect[Any, Any] | Lookup[Any, Any], order: Any, way: Way, events: Events, summary: str
) -> Report:
    """One execution of it.

    Raises:
        ActivityError, ApplicationError, TimeoutError: it gave no answer; see `NO_ANSWER`.
    """
    whole = way.timeout + BOOKKEEPING
    if way.inline:
        local: Report = await workflow.execute_local_activity(
            way.name,
            order,
            result_type=Report,
            start_to_close_timeout=whole,
            retry_policy=ONCE,
            summary=summary,
        )
        return local
    picked_up, heartbeat = _waits(contract)
    if way.expires_at is not None:
        picked_up = min(picked_up, max(way.expires_at - workflow.now(), _AT_LEAST))
    handle: InLine = workflow.start_activity(
        way.name,
        order,
        result_type=Report,
        task_queue=_task_queue(contract),
        schedule_to_start_timeout=picked_up,
        start_to_close_timeout=whole,
        heartbeat_timeout=heartbeat,
        retry_policy=ONCE,
        summary=summary,
        priority=_AHEAD if contract.limit is not None and isinstance(contract, Lookup) else Priority.default,
        cancellation_type=_TO_ITS_END if way.limited else ActivityCancellationType.TRY_CANCEL,
    )
    if way.limited and way.in_line is not None:
        way.in_line(handle)
    return await events.of(handle)


def _task_queue(contract: Effect[Any, Any] | Lookup[Any, Any]) -> str | None:
    info = workflow.info()
    if contract.limit is not None:
        return contract.limit.task_queue(info.task_queue)
    return contract.task_queue and queue_of(contract.task_queue, scope_of_workflow(info.workflow_id))


def _waits(contract: Effect[Any, Any] | Lookup[Any, Any]) -> tuple[timedelta, timedelta]:
    """How long it may wait for a worker, and after which silence that worker counts as lost."""
    if isinstance(contract, Effect):
        return contract.schedule_to_start_timeout, contract.heartbeat_timeout
    return _LOOK_UP_WAITS if contract.limit is None else (SCHEDULE_TO_START_LIMITED, _LOOK_UP_WAITS[1])
