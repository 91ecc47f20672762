"""`perdure replay`: replays histories of an app's lifecycles with today's code, before it is deployed.

The histories come from a server, or from files that were saved before. If today's code takes another path than a
history, a worker with this code could not continue that run.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from temporalio.api.enums.v1 import EventType
from temporalio.client import WorkflowHistory
from temporalio.runtime import LoggingConfig, Runtime, TelemetryConfig, TelemetryFilter
from temporalio.service import RPCError, RPCStatusCode
from temporalio.worker import Replayer

from perdure._worker.plugin import PerdurePlugin
from perdure._worker.worker import connect
from perdure.app import App
from perdure.contracts.scopes import workflow_prefix
from perdure.errors import InvalidHistory, InvalidSetting, UnusableFile
from perdure.settings import Settings

_UNSAFE = re.compile(r"[^A-Za-z0-9._~-]+")


@dataclass(frozen=True, slots=True)
class Difference:
    """A run that today's code cannot continue."""

    workflow_id: str
    run_id: str
    lifecycle: str
    event: str
    why: str

    def __str__(self) -> str:
        return f"{self.workflow_id} {self.run_id} {self.lifecycle}: {self.event}: {self.why}"


@dataclass(slots=True)
class Replayed:
    """The result: replayed runs, runs of workflows that the app does not have, by type, and the differences."""

    runs: int = 0
    foreign: Counter[str] = field(default_factory=Counter)
    differences: int = 0


async def replay(
    app: App,
    config: Settings,
    histories: AsyncIterator[WorkflowHistory],
    *,
    limit: int | None = None,
    differs: Callable[[Difference], None],
    done: Callable[[Replayed], None],
) -> Replayed:
    """Replay histories.

    Args:
        limit: the most runs to replay.
        differs: receives each difference.
        done: receives the progress after each run.
    """
    quiet = TelemetryConfig(logging=LoggingConfig(TelemetryFilter(core_level="ERROR", other_level="ERROR")))
    replayer = Replayer(workflows=[], plugins=[PerdurePlugin(app, config)], runtime=Runtime(telemetry=quiet))
    seen = Replayed()
    async for history in histories:
        if limit is not None and seen.runs >= limit:
            break
        run_id, lifecycle = _begin(history)
        if lifecycle not in app.lifecycles:
            seen.foreign[lifecycle] += 1
            continue
        result = await replayer.replay_workflow(history, raise_on_replay_failure=False)
        seen.runs += 1
        if result.replay_failure is not None:
            seen.differences += 1
            event, why = _difference(history, result.replay_failure)
            differs(Difference(history.workflow_id, run_id, lifecycle, event, why))
        done(seen)
    return seen


async def from_files(paths: Sequence[Path]) -> AsyncIterator[WorkflowHistory]:
    """Histories from JSON files, and from all `*.json` in folders and below them, in the format of `save`, the Web UI
    and `temporal workflow show --output json`.

    Raises:
        InvalidHistory: there is no file, or a file is no history. The message names the file.
    """
    files = [file for path in paths for file in (sorted(path.rglob("*.json")) if path.is_dir() else [path])]
    if not files:
        raise InvalidHistory(f"no *.json in {', '.join(map(str, paths))}: save some with `perdure replay --save`")
    for file in files:
        try:
            data = json.loads(file.read_text())
            history = WorkflowHistory.from_json(str(data.get("workflowId") or _named(data) or file.stem), data)
            _begin(history)
        except (OSError, ValueError, AttributeError, KeyError, TypeError, IndexError) as error:
            raise InvalidHistory(f"{file} is no history of a workflow: {error}") from error
        yield history


async def from_server(app: App, config: Settings, query: str | None = None) -> AsyncIterator[WorkflowHistory]:
    """Histories from the server that `TEMPORAL_*` names: of the runs that `query` finds, or else of all lifecycles that
    are open on the task queue, also of those that the app does not have.

    Raises:
        TemporalUnavailable: no server answers.
        InvalidSetting: the server cannot read the query.
    """
    client = await connect(PerdurePlugin(app, config))
    asked = query or f"ExecutionStatus = 'Running' and TaskQueue = '{config.queue}'"
    try:
        async for run in client.list_workflows(asked):
            if query or run.id.startswith(workflow_prefix(run.workflow_type, config.scope)):
                yield await client.get_workflow_handle(run.id, run_id=run.run_id).fetch_history()
    except RPCError as error:
        if error.status is not RPCStatusCode.INVALID_ARGUMENT:
            raise
        raise InvalidSetting(f"Temporal can't read the query {asked!r}: {error.message}") from None


async def saved(histories: AsyncIterator[WorkflowHistory], folder: Path) -> AsyncIterator[WorkflowHistory]:
    """The same histories, each written to `folder` as `<lifecycle>/<run id>.json`.

    Raises:
        UnusableFile: a file cannot be written.
    """
    async for history in histories:
        run_id, lifecycle = _begin(history)
        file = folder / _UNSAFE.sub("_", lifecycle) / f"{_UNSAFE.sub('_', run_id)}.json"
        text = json.dumps({"workflowId": history.workflow_id, **json.loads(history.to_json())}) + "\n"
        try:
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
        except OSError as error:
            raise UnusableFile(f"{file} can't be written: {error.strerror}") from None
        yield history


def _begin(history: WorkflowHistory) -> tuple[str, str]:
    """The run id and the workflow type."""
    started = history.events[0].workflow_execution_started_event_attributes
    return started.original_execution_run_id, started.workflow_type.name


def _named(data: dict[str, Any]) -> str | None:
    """The workflow id, which newer servers write into the history itself."""
    started = data["events"][0].get("workflowExecutionStartedEventAttributes", {})
    return str(started["workflowId"]) if "workflowId" in started else None


def _difference(history: WorkflowHistory, failure: Exception) -> tuple[str, str]:
    """The first event that differs, if the SDK names it, and the difference."""
    text = str(failure)
    message = re.search(r'message: "((?:[^"\\]|\\.)*)"', text)
    why = (message[1] if message else text).replace("\n", " ")[:500]
    by_id, by_type = re.search(r"HistoryEvent\(id: (\d+)", text), re.search(r"scheduled event '([^']+)'", why)
    for event in history.events:
        kind = event.activity_task_scheduled_event_attributes.activity_type.name
        if (by_id and event.event_id == int(by_id[1])) or (by_type and kind == by_type[1]):
            return f"event {event.event_id} {EventType.Name(event.event_type).removeprefix('EVENT_TYPE_')}", why
    return "an event that the SDK does not name", why
