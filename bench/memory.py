"""Bytes of a worker's memory per lifecycle that waits, in the workflow cache and without one, beside a plain workflow.

Run it as `python -m bench.memory [--open 1000 --open 10000]`. The worker is a process of its own, new for each figure.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated

import asyncpg
import psutil
import typer
from rich.console import Console
from rich.table import Table

from bench.polling import eventually
from perdure._store import schema
from perdure.servers.guard import GuardedProcess
from perdure.servers.postgres import PostgresServer
from perdure.servers.temporal import TemporalServer

ROOT = Path(__file__).parents[1]
INPUT = {"id": 1, "post_id": 7, "author": "Ann", "body": "Well said. " * 10, "recipient": "bob@blog.example"}
FIRST = 1_000
"""So many are there before anything is measured. They fill what a worker has freed when it started, some 20 MB."""
_START = """
    select count(perdure.start('waiting', n::text, $2::jsonb)) from generate_series($1::int, $1::int + $3::int - 1) n
"""


def main(
    opened: Annotated[list[int], typer.Option("--open", help="How many wait.")] = [1_000, 10_000],  # noqa: B006
    uncached: Annotated[
        bool,
        typer.Option(help="Also without a cache: many minutes for 10,000."),
    ] = True,
) -> None:
    """Measure, and print the table."""
    table = Table("waiting", "of", "workflow cache", "RSS before, MB", "RSS after, MB", "bytes each")
    for count in opened:
        for name, cached in [("lifecycles", count + FIRST), ("plain workflows", count + FIRST), ("lifecycles", 1)]:
            if cached > 1 or uncached:
                before, after = asyncio.run(_plain(count) if name.startswith("plain") else _measure(count, cached))
                figures = f"{cached:,}", f"{before / 1e6:.0f}", f"{after / 1e6:.0f}", f"{(after - before) / count:,.0f}"
                table.add_row(f"{count:,}", name, *figures)
    Console().print(table)


async def _plain(count: int) -> tuple[int, int]:
    """The same of plain workflows."""
    with TemporalServer() as temporal:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "bench.plain_waiting", str(count)),
            cwd=ROOT,
            env={**os.environ, "TEMPORAL_ADDRESS": temporal.address},
            stdout=asyncio.subprocess.PIPE,
        )
        output, _ = await process.communicate()
    before, after = json.loads(output.splitlines()[-1])
    return before, after


async def _measure(count: int, cached: int) -> tuple[int, int]:
    """RSS of a worker, in bytes, before and after `count` lifecycles came to wait."""
    with PostgresServer(durable=False) as postgres, TemporalServer() as temporal, TemporaryDirectory() as folder:
        database = await asyncpg.connect(postgres.dsn())
        await schema.migrate(database)
        environment = {
            **os.environ,
            "TEMPORAL_ADDRESS": temporal.address,
            "PERDURE_DATABASE_URL": postgres.dsn(),
            "PERDURE_MAX_CACHED_WORKFLOWS": str(cached),
        }
        command = [sys.executable, "-m", "perdure.cli", "worker", "bench.waiting:app"]
        log = Path(folder) / "worker.log"
        worker = GuardedProcess(command, ask=signal.SIGTERM, log=log, cwd=ROOT, env=environment)
        try:
            await _open(database, 1, FIRST)  # what is loaded with the first ones is not theirs
            before = psutil.Process(worker.pid).memory_info().rss
            await _open(database, FIRST + 1, count)
            after = psutil.Process(worker.pid).memory_info().rss
        finally:
            worker.stop()
            await database.close()
    return before, after


async def _open(database: asyncpg.Connection[asyncpg.Record], first: int, count: int) -> None:
    """Start so many, and return when they wait and nothing is left to do."""
    await database.execute(_START, first, json.dumps(INPUT), count)
    all_wait = "select count(*) >= $1 from perdure.entity where state = 'waiting'"
    await eventually(lambda: database.fetchval(all_wait, first + count - 1), "all wait", patience=4 * 3600, every=0.1)
    await asyncio.sleep(2)  # the last workflow tasks are reported, and evicted where there is no cache


if __name__ == "__main__":
    typer.run(main)
