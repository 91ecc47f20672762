"""For tests of erasure: `perdure forget` as a process, and a search for a text in all that a world has."""

from __future__ import annotations

import importlib
import secrets
from pathlib import Path
from typing import Any

from temporalio.service import RPCError, RPCStatusCode

from tests.collector import Collector
from tests.deadline import in_time
from tests.forked import Forked
from tests.world import World

EVERY_TABLE = """
    select c.oid::regclass::text from pg_class c join pg_namespace n on n.oid = c.relnamespace
    where c.relkind in ('r', 'm') and n.nspname <> 'information_schema' and n.nspname !~ '^pg_toast'
"""
pq: Any = importlib.import_module("pyarrow.parquet")  # it brings no types


async def places(world: World, mark: str, collector: Collector | None = None) -> set[str]:
    """Where a text is found: tables and files by name, histories by workflow, traces and metrics."""
    found = set()
    for (table,) in await world.db.fetch(EVERY_TABLE):
        if await world.db.fetchval(f"select exists (select from {table} x where strpos(x::text, $1) > 0)", mark):
            found.add(table)
    async for run in world.temporal_client.list_workflows(f'WorkflowId STARTS_WITH "{world.scope}:"'):
        if await in_history(world, run.id, run.run_id, mark):
            found.add(run.id.partition(":")[2])
    for path in world.folder.rglob("*"):
        if path.is_file() and mark in text_of(path):
            found.add(path.name)
    if collector is not None and any(mark.encode() in body for body in collector.bodies):
        found.add("telemetry")
    return found


async def in_history(world: World, workflow_id: str, run: str | None, mark: str) -> bool:
    """Whether Temporal has a text in the history of a run, or in what it shows of it."""
    handle = world.temporal_client.get_workflow_handle(workflow_id, run_id=run)
    try:
        described = await handle.describe()
        events = [event.SerializeToString() async for event in handle.fetch_history_events()]
    except RPCError as error:
        if error.status is RPCStatusCode.NOT_FOUND:
            return False  # the search is a moment behind
        raise
    return any(mark.encode() in each for each in (described.raw_description.SerializeToString(), *events))


def text_of(path: Path) -> str:
    """What a file holds; Parquet is unpacked."""
    if path.suffix == ".parquet":
        return str(pq.read_table(str(path)).to_pylist())
    return path.read_bytes().decode(errors="replace")


async def forget(world: World, *arguments: str, **environment: str) -> tuple[int, str]:
    """Run `perdure forget` in a process of its own: its exit status, and what it prints."""
    output = world.folder.parent / f"forget-{secrets.token_hex(3)}.txt"
    process = Forked(["forget", *arguments, "--by", "officer", "--yes"], {**world.environment(), **environment}, output)
    return await in_time(process.wait()), output.read_text()
