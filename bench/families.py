"""Jobs as children of one master, beside as many inserted one by one; and what a large family takes of its worker.

Run it as `python -m bench.families [--jobs 10000] [--rounds 3]`; with `--family 1000 --family 100000` for memory.
The page does nothing, in this process. 100,000 children take over an hour on two cores.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import statistics
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated

import asyncpg
import psutil
import temporalio.client
import typer
from aiohttp import web
from rich.console import Console
from rich.table import Table

from infra.guard import GuardedProcess
from infra.postgres import PostgresServer
from infra.temporal import TemporalServer
from perdure import schema

ROOT = Path(__file__).parents[1]
TABLES = ROOT / "activities" / "web_jobs.sql"
WAYS = ("one by one", "children")
PAGE = 1000
"""Children on one page of a list."""
_TYPE = "insert into web_job.type (name, url, method, timeout, at_once) values ($1, $2, $3, $4, 1000)"
_JOB = "insert into web_job.job (id, type, params) values ($1, $2, $3)"
_OF_ROUND = "select count(*) from web_job.job where (id = $1 or id like $1 || '/%')"
_LEFT = f"{_OF_ROUND} and state not in ('complete', 'failed', 'cancelled')"
_NOT_DONE = f"{_OF_ROUND} and state <> 'complete'"
PATIENCE = 60.0
"""Seconds in which at least one job must end."""


@dataclass(frozen=True, slots=True)
class Used:
    """What a round took: seconds, and CPU seconds of the worker, Temporal and PostgreSQL."""

    wall: float
    worker: float
    temporal: float
    postgres: float

    @property
    def cpu(self) -> float:
        """Of all three."""
        return self.worker + self.temporal + self.postgres


@dataclass(frozen=True, slots=True)
class Size:
    """What one family took.

    Attributes:
        wall: seconds.
        peak: resident memory of the worker at its most, bytes.
        runs: of the master, each continued as new by the one before it.
        longest: history of one of these, in events.
        largest: event of one of these, in bytes.
    """

    wall: float
    peak: int
    runs: int
    longest: int
    largest: int


def main(
    jobs: Annotated[int, typer.Option(help="How many, each way.", min=1)] = 1_000,
    rounds: Annotated[int, typer.Option(help="How often each way has its turn.", min=1)] = 3,
    window: Annotated[int, typer.Option(help="How many children are open at a time.", min=1)] = 200,
    family: Annotated[list[int] | None, typer.Option(help="Measure families of so many children instead.")] = None,
) -> None:
    """Measure, and print the table."""
    if family:
        _show_sizes({count: asyncio.run(size(count, window)) for count in family})
    else:
        _show_ratios(asyncio.run(compare(jobs, rounds, window)), jobs)


async def compare(jobs: int, rounds: int, window: int) -> dict[str, list[Used]]:
    """What each way took, in each round; a short round before them fills caches."""
    found: dict[str, list[Used]] = {way: [] for way in WAYS}
    async with ground() as made:
        for number in range(-1, rounds):
            for way in WAYS if number % 2 else reversed(WAYS):
                used = await made.round(way, f"{way[:3]}-{number}", jobs if number >= 0 else min(jobs, 100), window)
                if number >= 0:
                    found[way].append(used)
    return found


async def size(children: int, window: int) -> Size:
    """What a family of so many takes, in a worker of its own."""
    async with ground() as made:
        used = await made.round("children", "m", children, window)
        runs, longest, largest = await made.histories("m")
        return Size(used.wall, made.peak(), runs, longest, largest)


class Ground:
    """Servers, a worker of web jobs, and the page; made by `ground`."""

    def __init__(
        self,
        postgres: PostgresServer,
        temporal: TemporalServer,
        database: asyncpg.Connection[asyncpg.Record],
        worker: GuardedProcess,
        log: Path,
    ) -> None:
        self._database = database
        self._worker = worker
        self._log = log
        self._processes = (worker.pid, temporal.pid, postgres.pid)
        self._temporal = temporal

    async def round(self, way: str, name: str, jobs: int, window: int) -> Used:
        """Do so many jobs, until the last one is complete."""
        before, begun = [_cpu(pid) for pid in self._processes], time.monotonic()
        if way == "children":
            given = {"count": jobs, "window": window, "first": 0}
            await self._database.execute(_JOB, name, "master", json.dumps(given))
        else:
            for number in range(jobs):
                await self._database.execute(_JOB, f"{name}/{number}", "page", "{}")
        await self._ended(name)
        wall = time.monotonic() - begun
        after = [_cpu(pid) for pid in self._processes]
        return Used(wall, *(late - early for early, late in zip(before, after, strict=True)))

    async def _ended(self, name: str) -> None:
        """Wait until all jobs of a round are complete."""
        left, moved_at = -1, time.monotonic()
        while now := await self._database.fetchval(_LEFT, name):
            if now != left:
                left, moved_at = now, time.monotonic()
            if time.monotonic() - moved_at > PATIENCE or not psutil.pid_exists(self._worker.pid):
                raise RuntimeError(
                    f"{left} jobs of {name} are left, and nothing moves:\n{self._log.read_text()[-3000:]}"
                )
            await asyncio.sleep(0.1)
        assert not await self._database.fetchval(_NOT_DONE, name), "jobs have failed"

    def peak(self) -> int:
        """Resident memory of the worker at its most, in bytes."""
        status = Path(f"/proc/{self._worker.pid}/status").read_text()
        return next(int(line.split()[1]) * 1024 for line in status.splitlines() if line.startswith("VmHWM"))

    async def histories(self, master: str) -> tuple[int, int, int]:
        """Runs of a master, the longest of their histories in events, and the largest event in bytes."""
        client = await temporalio.client.Client.connect(self._temporal.address)
        workflow_id = f"web-job/{master}"
        run_id: str | None = (await client.get_workflow_handle(workflow_id).describe()).run_id
        lengths, largest = [], 0
        while run_id:
            before, length = None, 0
            async for event in client.get_workflow_handle(workflow_id, run_id=run_id).fetch_history_events():
                length, largest = event.event_id, max(largest, event.ByteSize())
                if event.HasField("workflow_execution_started_event_attributes"):
                    started = event.workflow_execution_started_event_attributes
                    before = started.continued_execution_run_id or None
            lengths.append(length)
            run_id = before
        return len(lengths), max(lengths), largest


@asynccontextmanager
async def ground() -> AsyncIterator[Ground]:
    """Start everything; stop it at the end."""
    with PostgresServer() as postgres, TemporalServer() as temporal, TemporaryDirectory() as folder:
        database = await asyncpg.connect(postgres.dsn())
        await schema.migrate(database)
        await database.execute(TABLES.read_text())
        async with _pages() as origin:
            await database.execute(_TYPE, "page", f"{origin}/page", "POST", timedelta(seconds=5))
            listing = f"{origin}/list{{?count,window,first}}"
            await database.execute(_TYPE, "master", listing, "GET", timedelta(seconds=5))
            environment = {
                **os.environ,
                "TEMPORAL_ADDRESS": temporal.address,
                "PERDURE_DATABASE_URL": postgres.dsn(),
                "PERDURE_CLEAN_UP_EVERY": "0",
                "PERDURE_WEB_ORIGINS": origin,
                "PERDURE_WEB_NETWORKS": "127.0.0.0/8",
            }
            command = [sys.executable, "-m", "perdure.command", "worker", "workers.web_jobs:app"]
            log = Path(folder) / "worker.log"
            worker = GuardedProcess(command, ask=signal.SIGTERM, log=log, cwd=ROOT, env=environment)
            try:
                yield Ground(postgres, temporal, database, worker, log)
            finally:
                worker.stop()
                await database.close()


@asynccontextmanager
async def _pages() -> AsyncIterator[str]:
    """A page that does nothing, and one that lists children; gives their origin."""
    app = web.Application()
    app.router.add_post("/page", _nothing)
    app.router.add_get("/list", _list)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


async def _nothing(_: web.Request) -> web.Response:
    return web.json_response({})


async def _list(request: web.Request) -> web.Response:
    count, first = int(request.query["count"]), int(request.query["first"])
    children = [{"id": str(number), "type": "page"} for number in range(first, min(first + PAGE, count))]
    more = request.url.update_query(first=first + PAGE)
    links = {"Link": f'<{more}>; rel="next"'} if first + PAGE < count else {}
    return web.json_response({"children": children, "window": int(request.query["window"])}, headers=links)


def _cpu(pid: int) -> float:
    """CPU seconds of a process and all that it has started."""
    process = psutil.Process(pid)
    times = process.cpu_times()
    used = times.user + times.system + times.children_user + times.children_system
    for child in process.children(recursive=True):
        try:
            times = child.cpu_times()
        except psutil.NoSuchProcess:
            continue
        used += times.user + times.system
    return used


def _show_ratios(found: dict[str, list[Used]], jobs: int) -> None:
    table = Table("way", "seconds", "jobs/s", "CPU s", "worker", "Temporal", "PostgreSQL", title=f"{jobs:,} jobs")
    for way, rounds in found.items():
        middle = sorted(rounds, key=lambda each: each.wall)[len(rounds) // 2]
        shown = (middle.wall, jobs / middle.wall, middle.cpu, middle.worker, middle.temporal, middle.postgres)
        table.add_row(way, *(f"{each:.1f}" for each in shown))
    pairs = list(zip(found["one by one"], found["children"], strict=True))
    wall = statistics.median(led.wall / alone.wall for alone, led in pairs)
    cpu = statistics.median(led.cpu / alone.cpu for alone, led in pairs)
    console = Console()
    console.print(table)
    console.print(f"as children of one master: {wall:.2f} times as long, {cpu:.2f} times the CPU")


def _show_sizes(found: dict[int, Size]) -> None:
    table = Table(
        "children", "seconds", "worker's peak, MB", "runs of the master", "longest history", "largest event, kB"
    )
    for count, each in found.items():
        row = (f"{each.wall:.0f}", f"{each.peak / 1e6:.0f}", str(each.runs), f"{each.longest:,}")
        table.add_row(f"{count:,}", *row, f"{each.largest / 1000:.1f}")
    Console().print(table)


if __name__ == "__main__":
    typer.run(main)
