"""Checks a case that has ended: once at the other side, the mirror as the workflow, nothing left open."""

from __future__ import annotations

import asyncio
import json
from itertools import pairwise

import asyncpg
from temporalio.api.enums.v1 import EventType
from temporalio.client import WorkflowExecutionStatus
from temporalio.service import RPCError

from perdure.contracts.policies import Repeat
from perdure.contracts.states import STARTING
from perdure.testing.crashing.case import Case, Stage

_OPEN = ("entity", "outbox", "message", "behind", "rejected")
_ROWS = ("ident", "entity", "finished", "effect", "outbox", "message", "behind", "rejected", "transition")


async def audit(stage: Stage, undisturbed: Case | None) -> None:
    """Record in the case what is wrong with its end, compared with the undisturbed run."""
    case = stage.case
    connection = await asyncpg.connect(stage.database_url)
    try:
        await _closed(stage)
        await _nothing_left(connection, stage)
        await _mirror_is_truth(connection, stage)
        await _counted(connection, stage, undisturbed)
    finally:
        await connection.close()
    if undisturbed is not None and case.final != undisturbed.final:
        case.faults.append(f"it ended as {case.final!r}; undisturbed it ends as {undisturbed.final!r}")


async def evidence(stage: Stage) -> str:
    """The history, the rows and the end of the workers' logs, as text."""
    parts = ["history:", *await _history(stage)]
    connection = await asyncpg.connect(stage.database_url)
    try:
        for table in _ROWS:
            rows = await connection.fetch(f"select to_jsonb(x) as row from perdure.{table} x")
            parts += [f"perdure.{table}: {json.dumps(json.loads(row['row']))}" for row in rows]
    finally:
        await connection.close()
    for log in stage.logs:
        if log.exists():
            parts += [f"{log.name}:", *log.read_text(errors="replace").splitlines()[-20:]]
    return "\n  ".join(parts)


async def _closed(stage: Stage) -> None:
    """The mirror is final a moment before Temporal closes the workflow."""
    until = asyncio.get_running_loop().time() + stage.subject.patience
    while True:
        status = (await stage.answered(stage.handle().describe)).status
        if status is WorkflowExecutionStatus.COMPLETED:
            return
        if asyncio.get_running_loop().time() > until:
            stage.case.faults.append(f"the workflow is {status.name if status else 'unknown'}, not completed")
            return
        await asyncio.sleep(0.05)


async def _nothing_left(connection: asyncpg.Connection[asyncpg.Record], stage: Stage) -> None:
    until = asyncio.get_running_loop().time() + stage.subject.patience
    while left := [
        table for table in _OPEN if await connection.fetchval(f"select exists (select from perdure.{table})")
    ]:
        if asyncio.get_running_loop().time() > until:
            stage.case.faults.append(f"rows are left in {', '.join(left)}")
            return
        await asyncio.sleep(0.05)


async def _mirror_is_truth(connection: asyncpg.Connection[asyncpg.Record], stage: Stage) -> None:
    case, lifecycle = stage.case, stage.subject.lifecycle
    truth = str((await stage.answered(lambda: stage.handle().query("status")))["state"])
    shown = {"ident": await connection.fetchval("select final from perdure.ident where id = $1", case.id)}
    shown["finished"] = await connection.fetchval("select state from perdure.finished where id = $1", case.id)
    if column := lifecycle.mirror:
        find = f"select {column.column}::text from {column.table} where {column.key}::text = $1"
        if await connection.fetchval(f"select exists ({find})", case.id):
            shown[f"{column.table}.{column.column}"] = await connection.fetchval(find, case.id)
    for place, state in shown.items():
        if state != truth:
            case.faults.append(f"{place} shows {state!r}; the workflow ended as {truth!r}")
    rows = await connection.fetch("select state from perdure.transition where id = $1 order by version, at", case.id)
    first = str(lifecycle.declared.initial)  # until its delivery an entity shows `starting`
    states = [first if row["state"] == STARTING else row["state"] for row in rows]
    for before, after in pairwise(states):
        if not lifecycle.declared.allows(before, after):
            case.faults.append(f"the mirror went from {before!r} to {after!r}, which is not declared")


async def _counted(connection: asyncpg.Connection[asyncpg.Record], stage: Stage, undisturbed: Case | None) -> None:
    case = stage.case
    repeats = {each.name for each in stage.subject.lifecycle.effects if isinstance(each.doubt, Repeat)}
    for row in await connection.fetch("select key, effect, status, attempts from perdure.effect order by key"):
        if not stage.subject.counted(row["key"]):
            continue
        count = case.counts[row["effect"]] = await stage.happened(row["key"])
        if row["status"] in ("attempting", "in_doubt"):
            case.faults.append(f"{row['effect']} is left {row['status']}")
        if undisturbed is None:
            continue
        wanted = undisturbed.counts.get(row["effect"], 0)
        # `Repeat` means at least once: each lost attempt may have happened as well.
        most = max(wanted, row["attempts"]) if row["effect"].partition("/")[0] in repeats else wanted
        if not wanted <= count <= most:
            case.faults.append(f"{row['effect']} happened {count} times; undisturbed it happens {wanted} times")
    if undisturbed is not None:
        case.faults += [f"{each} was never attempted" for each in undisturbed.counts if each not in case.counts]


async def _history(stage: Stage) -> list[str]:
    lines = []
    try:
        async for event in stage.handle().fetch_history_events():
            name = EventType.Name(event.event_type).removeprefix("EVENT_TYPE_").lower()
            attributes = getattr(event, str(event.WhichOneof("attributes")))
            kind = getattr(attributes, "activity_type", None)
            lines.append(f"{event.event_id:4} {name} {kind.name if kind else ''}".rstrip())
    except RPCError as error:
        lines.append(f"Temporal: {error.message}")
    return lines
