"""Describes in one line why a workflow closed, or why its tasks fail, as PostgreSQL can store it. Of an app's own error
only the type is shown, since the message may quote data."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import temporalio.client
from temporalio.api.enums.v1 import EventType
from temporalio.api.failure.v1 import Failure
from temporalio.api.history.v1 import HistoryEvent
from temporalio.client import WorkflowHistoryEventFilterType
from temporalio.converter import DataConverter
from temporalio.service import RPCError, RPCStatusCode

import perdure.errors
from perdure._crypto.codec import opened
from perdure._wire.writes import storable

Handle = temporalio.client.WorkflowHandle[Any, Any]

_LONGEST = 400


async def how_it_closed(handle: Handle, converter: DataConverter) -> str:
    """Why a workflow closed; '' if its history has no reason, or is gone."""
    events = handle.fetch_history_events(event_filter_type=WorkflowHistoryEventFilterType.CLOSE_EVENT)
    return storable(next(iter([await _why_closed(event, converter) async for event in _while_kept(events)]), "")) or ""


async def why_its_tasks_fail(handle: Handle, converter: DataConverter) -> str:
    """The last failure of a workflow task in the history; '' = none."""
    why = ""
    async for event in _while_kept(handle.fetch_history_events()):
        if event.event_type == EventType.EVENT_TYPE_WORKFLOW_TASK_FAILED:
            why = line_of(await opened(event.workflow_task_failed_event_attributes.failure, converter))
    return storable(why) or ""


def line_of(failure: Failure) -> str:
    """A failure in one line."""
    kind = failure.application_failure_info.type
    words = failure.message.splitlines()[0] if failure.message else ""
    if kind and not hasattr(perdure.errors, kind):
        return kind
    return f"{kind}: {words}"[:_LONGEST] if kind else words[:_LONGEST]


async def _while_kept(events: AsyncIterator[HistoryEvent]) -> AsyncIterator[HistoryEvent]:
    try:
        async for event in events:
            yield event
    except RPCError as error:
        if error.status is not RPCStatusCode.NOT_FOUND:
            raise


async def _why_closed(event: HistoryEvent, converter: DataConverter) -> str:
    if event.event_type == EventType.EVENT_TYPE_WORKFLOW_EXECUTION_FAILED:
        return line_of(await opened(event.workflow_execution_failed_event_attributes.failure, converter))
    if event.event_type == EventType.EVENT_TYPE_WORKFLOW_EXECUTION_TERMINATED:
        ended = event.workflow_execution_terminated_event_attributes
        return f"{ended.reason or 'no reason given'} ({ended.identity})"[:_LONGEST]
    return ""
