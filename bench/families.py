"""Jobs as children of one master, beside as many inserted one by one; and what a large family takes.

Run it as `python -m bench.families [--jobs 10000] [--rounds 3]`, or with `--family 1000 --family 100000`. Both ways run
at the same time, on servers and workers of their own: whatever else the machine does, it does to both. CPU seconds are
what to compare. The page does nothing, in this process.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import statistics
import sys
import time
from collections.abc import AsyncIterator, Callable
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

from perdure._store import schema
from perdure.servers.guard import GuardedProcess
from perdure.servers.postgres import PostgresServer
from perdure.servers.temporal import TemporalServer

ROOT = Path(__file__).parents[1]
TABLES = ROOT / "activities" / "web_jobs" / "tables.sql"
WAYS = ("one by one", "children")
PAGE = 1000
"""Children on one page of a list."""
_TYPE = "insert into web_job.type (name, url, method, timeout, at_once, children) values ($1, $2, $3, $4, 1000, $5)"
_JOB = "insert into web_job.job (id, type, params) values ($1, $2, $3)"
_LEFT = """select (select count(*) from web_job.job where state in ('scheduled', 'held', 'processing'))
    + (select count(*) from web_job.job where state = 'listed')"""
"""By two indexes of those states alone: a look costs the same however many jobs have ended."""
_NOT_DONE = "select count(*) from web_job.job where state <> 'complete'"
_OURS = "nspname in ('perdure', 'web_job')"
_TABLES = f"""select c.oid::regclass::text from pg_class c join pg_namespace n on n.oid = relnamespace
    where {_OURS} and relkind in ('r', 'p') and not relispartition"""
_BYTES = f"""select sum(pg_total_relation_size(c.oid)) from pg_class c join pg_namespace n on n.oid = relnamespace
    where {_OURS} and relkind = 'r'"""
_COMMITS = "select xact_commit from pg_stat_database where datname = current_database()"
_WAL = "select pg_wal_lsn_diff(pg_current_wal_lsn(), '0/0')"
LOOK = 0.25
"""Seconds between two looks at how many jobs are left."""
PATIENCE = 120.0
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
class Held:
    """What the database holds, and what has passed through it.

    Attributes:
        rows: of all tables of perdure and of web jobs.
        bytes: of these tables with their indexes.
        commits: transactions.
        wal: bytes of the write-ahead log.
    """

    rows: int
    bytes: int
    commits: int
    wal: int

    def __sub__(self, other: Held) -> Held:
        return Held(
            self.rows - other.rows, self.bytes - other.bytes, self.commits - other.commits, self.wal - other.wal
        )


@dataclass(frozen=True, slots=True)
class Size:
    """What so many jobs took.

    Attributes:
        used: seconds, and CPU seconds.
        held: what it has added to the database.
        peak: resident memory of the worker at its most, bytes.
        temporal: the same of Temporal, which keeps all histories in memory.
        runs: of the master, each continued as new by the one before it; 0 where there is none.
        longest: history of one of these, in events.
        largest: event of one of these, in bytes.
    """

    used: Used
    held: Held
    peak: int
    temporal: int
    runs: int
    longest: int
    largest: int


def main(
    jobs: Annotated[int, typer.Option(help="How many, each way.", min=1)] = 1_000,
    rounds: Annotated[int, typer.Option(help="How often each way has its turn.", min=1)] = 3,
    window: Annotated[int, typer.Option(help="How many are open at a time.", min=1)] = 50,
    family: Annotated[list[int] | None, typer.Option(help="Measure families of so many children instead.")] = None,
) -> None:
    """Measure, and print the table."""
    if family:
        _show({f"{count:,} children": (count, asyncio.run(_alone(count, window))) for count in family})
        return
    found = [asyncio.run(compare(jobs, window)) for _ in range(rounds)]
    for each in found:
        _show({f"{jobs:,} {way}": (jobs, size) for way, size in each.items()})
    ratios = [each["children"].used.cpu / each["one by one"].used.cpu for each in found]
    middle, span = statistics.median(ratios), f"{min(ratios):.2f} - {max(ratios):.2f}"
    print(f"CPU, as children of one master : one by one = {middle:.2f} ({span})")


async def compare(jobs: int, window: int) -> dict[str, Size]:
    """What each way takes, both at the same time."""
    async with rig() as one, rig() as other:
        rigs = dict(zip(WAYS, (one, other), strict=True))
        sizes = await asyncio.gather(*(made.size(way, jobs, window) for way, made in rigs.items()))
    return dict(zip(WAYS, sizes, strict=True))


async def _alone(children: int, window: int) -> Size:
    async with rig() as made:
        return await made.size("children", children, window)


class Rig:
    """Servers, a worker of web jobs, and the page; made by `rig`."""

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

    async def size(self, way: str, jobs: int, window: int) -> Size:
        """What so many jobs take."""
        before = await self.held()
        used = await self.round(way, "m", jobs, window)
        held = await self.held() - before
        runs, longest, largest = await self.histories("m") if way == "children" else (0, 0, 0)
        return Size(used, held, _peak(self._worker.pid), _peak(self._temporal.pid), runs, longest, largest)

    async def round(self, way: str, name: str, jobs: int, window: int) -> Used:
        """Do so many jobs, until the last one is complete."""
        before, begun = [_cpu(pid) for pid in self._processes], time.monotonic()
        if way == "children":
            given = {"count": jobs, "window": window, "first": 0}
            await self._database.execute(_JOB, name, "master", json.dumps(given))
        else:
            await self._insert(name, jobs, window)
        await self._ended(name)
        wall = time.monotonic() - begun
        after = [_cpu(pid) for pid in self._processes]
        return Used(wall, *(late - early for early, late in zip(before, after, strict=True)))

    async def _insert(self, name: str, jobs: int, window: int) -> None:
        """Insert so many jobs, each by itself, and as many as a master would start at a time."""
        inserted = 0
        while inserted < jobs:
            room = window - int(await self._database.fetchval(_LEFT))
            more = range(inserted, min(inserted + room, jobs))
            for number in more:
                await self._database.execute(_JOB, f"{name}/{number}", "page", "{}")
            inserted += len(more)
            await asyncio.sleep(LOOK)

    async def _ended(self, name: str) -> None:
        """Wait until all jobs of a round are complete."""
        left, moved_at = -1, time.monotonic()
        while now := await self._database.fetchval(_LEFT):
            if now != left:
                left, moved_at = now, time.monotonic()
            if time.monotonic() - moved_at > PATIENCE or not psutil.pid_exists(self._worker.pid):
                raise RuntimeError(
                    f"{left} jobs of {name} are left, and nothing moves:\n{self._log.read_text()[-3000:]}"
                )
            await asyncio.sleep(LOOK)
        assert not await self._database.fetchval(_NOT_DONE), "jobs have failed"

    async def held(self) -> Held:
        """What the database holds now, and what has passed through it."""
        database = self._database
        tables = [row[0] for row in await database.fetch(_TABLES)]
        rows = [await database.fetchval(f"select count(*) from {name}") for name in tables]
        bytes, commits, wal = [int(await database.fetchval(each)) for each in (_BYTES, _COMMITS, _WAL)]
        return Held(sum(rows), bytes, commits, wal)

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
async def rig() -> AsyncIterator[Rig]:
    """Start everything; stop it at the end."""
    with PostgresServer() as postgres, TemporalServer() as temporal, TemporaryDirectory() as folder:
        database = await asyncpg.connect(postgres.dsn())
        await schema.migrate(database)
        await database.execute(TABLES.read_text())
        async with _pages() as origin:
            await database.execute(_TYPE, "page", f"{origin}/page", "POST", timedelta(seconds=5), [])
            listing = f"{origin}/list{{?count,window,first}}"
            await database.execute(_TYPE, "master", listing, "GET", timedelta(seconds=5), ["page"])
            environment = {
                **os.environ,
                "TEMPORAL_ADDRESS": temporal.address,
                "PERDURE_DATABASE_URL": postgres.dsn(),
                "PERDURE_RECONCILIATION_EVERY": "0",
                "PERDURE_WEB_ORIGINS": origin,
                "PERDURE_WEB_NETWORKS": "127.0.0.0/8",
            }
            command = [sys.executable, "-m", "perdure.cli", "worker", "workers.web_jobs.app:app"]
            log = Path(folder) / "worker.log"
            worker = GuardedProcess(command, ask=signal.SIGTERM, log=log, cwd=ROOT, env=environment)
            try:
                yield Rig(postgres, temporal, database, worker, log)
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


def _peak(pid: int) -> int:
    status = Path(f"/proc/{pid}/status").read_text()
    return next(int(line.split()[1]) * 1024 for line in status.splitlines() if line.startswith("VmHWM"))


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


def _show(found: dict[str, tuple[int, Size]]) -> None:
    """A line for each figure, a column for each of what was measured."""
    table = Table("", *found)
    for name, figure in _FIGURES.items():
        table.add_row(name, *(figure(count, each) for count, each in found.values()))
    Console(width=140).print(table)


_FIGURES: dict[str, Callable[[int, Size], str]] = {
    "seconds": lambda count, each: f"{each.used.wall:,.0f}",
    "jobs a second": lambda count, each: f"{count / each.used.wall:.1f}",
    "CPU s per 1,000 jobs": lambda count, each: f"{each.used.cpu / count * 1000:.1f}",
    "  of the worker": lambda count, each: f"{each.used.worker / count * 1000:.1f}",
    "  of Temporal": lambda count, each: f"{each.used.temporal / count * 1000:.1f}",
    "  of PostgreSQL": lambda count, each: f"{each.used.postgres / count * 1000:.1f}",
    "worker's peak, MB": lambda count, each: f"{each.peak / 1e6:.0f}",
    "Temporal's peak, MB": lambda count, each: f"{each.temporal / 1e6:.0f}",
    "rows in the database, per job": lambda count, each: f"{each.held.rows / count:.2f}",
    "bytes of them, per job": lambda count, each: f"{each.held.bytes / count:,.0f}",
    "transactions, per job": lambda count, each: f"{each.held.commits / count:.2f}",
    "bytes of write-ahead log, per job": lambda count, each: f"{each.held.wal / count:,.0f}",
    "runs of the master": lambda count, each: str(each.runs),
    "its longest history, events": lambda count, each: f"{each.longest:,}",
    "its largest event, kB": lambda count, each: f"{each.largest / 1000:.1f}",
}


if __name__ == "__main__":
    typer.run(main)
