"""The servers that all ways share: PostgreSQL, two Temporal servers, the SMTP stand-in; and what they have used.

`dev` is the dev server with its defaults and SQLite in memory. `real` is the server for production on a PostgreSQL of
its own, with `history.transferProcessorMaxPollRPS` raised (`infra.temporal_server`).
"""

from __future__ import annotations

import asyncio
import re
import signal
import sys
import tempfile
import urllib.request
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import asyncpg
import psutil
import temporalio.client

from bench.cost.ways import ROOT, WAYS
from infra.temporal_server import TemporalOnPostgres
from perdure._store import schema
from perdure.servers.guard import GuardedProcess
from perdure.servers.ports import free_port
from perdure.servers.postgres import PostgresServer
from perdure.servers.temporal import TemporalServer

SERVERS = {
    "dev": "dev server, SQLite in memory, its defaults",
    "real": "server on PostgreSQL, prompt transfer queue",
}

_HEARTBEATS = re.compile(rb'^action\{action_type="grpc_RecordActivityTaskHeartbeat".*\} (\S+)$', re.MULTILINE)
_COUNTS = """
    select coalesce((select n_tup_upd from pg_stat_user_tables where relname = 'comment'), 0)::bigint as updates,
        coalesce((select calls from pg_stat_user_functions where funcname = 'apply_write'), 0)::bigint as writes,
        coalesce((select calls from pg_stat_user_functions where funcname = 'apply_writes'), 0)::bigint as batches
"""
_OTHERS = """
    select count(*) from pg_stat_activity
    where datname = current_database() and pid <> pg_backend_pid() and backend_type = 'client backend'
"""


class Rig:
    """What one run of the benchmark stands on; made by `rig`.

    Attributes:
        servers: Temporal, by the names in `SERVERS`.
        folder: logs.
    """

    def __init__(self, folder: Path, *, durable: bool, servers: Sequence[str]) -> None:
        self.folder = folder
        self.postgres = PostgresServer(durable=durable)
        self._metrics = free_port()
        self.servers: dict[str, TemporalServer] = {}
        if "dev" in servers:
            self.servers["dev"] = TemporalServer(prompt_queue=False, metrics_port=self._metrics)
        if "real" in servers:
            self.servers["real"] = TemporalOnPostgres(postgres=PostgresServer(durable=durable))
        self.smtp_port = free_port()
        self._post_office: GuardedProcess | None = None
        self._one_at_a_time = asyncio.Lock()
        self._admin: asyncpg.Connection[asyncpg.Record]

    async def open(self) -> None:
        """Start everything, with a database for each way."""
        await asyncio.to_thread(self.postgres.start)
        for server in self.servers.values():
            await asyncio.to_thread(server.start)
        command = [sys.executable, "-m", "bench.cost.post_office", str(self.smtp_port)]
        self._post_office = GuardedProcess(command, ask=signal.SIGTERM, log=self.folder / "post_office.log", cwd=ROOT)
        self._admin = await asyncpg.connect(self.postgres.dsn())
        for way in WAYS:
            await self.add_database(way)

    async def close(self) -> None:
        """Stop everything."""
        with suppress(AttributeError):
            await self._admin.close()
        if self._post_office is not None:
            self._post_office.stop()
        for server in self.servers.values():
            await asyncio.to_thread(server.close)
        await asyncio.to_thread(self.postgres.close)

    def dsn(self, way: str) -> str:
        """The app's database of a way."""
        return self.postgres.dsn(f"bench_{way}")

    async def unbind(self, way: str) -> None:
        """Let a way's database work with whichever Temporal server comes next: each way runs on all of them."""
        connection = await asyncpg.connect(self.dsn(way))
        await connection.execute("delete from perdure.database; insert into perdure.database default values")
        await connection.close()

    async def counts(self, way: str) -> asyncpg.Record:
        """`updates` of the app's table, calls of `apply_write` and `apply_writes`; exact once who wrote has ended."""
        connection = await asyncpg.connect(self.dsn(way))
        try:
            # A backend hands in what it counted when it ends.
            while await connection.fetchval(_OTHERS):  # noqa: ASYNC110 - no notification comes
                await asyncio.sleep(0.05)
            row = await connection.fetchrow(_COUNTS)
        finally:
            await connection.close()
        assert row is not None
        return row

    async def transactions(self) -> int:
        """Transaction ids that the server has given out: looks that write nothing take none."""
        async with self._one_at_a_time:  # ways may be measured side by side
            return int(await self._admin.fetchval("select pg_snapshot_xmax(pg_current_snapshot())::text::bigint"))

    async def temporal_client(self, server: str) -> temporalio.client.Client:
        """A client, to read histories."""
        return await temporalio.client.Client.connect(self.servers[server].address)

    def server_cpu(self, server: str) -> float:
        """CPU seconds of a Temporal server so far, with the PostgreSQL that it has for itself."""
        return sum(with_children(pid) for pid in self._of_server(server))

    def db_cpu(self) -> float:
        """CPU seconds of the app's PostgreSQL so far, backends that ended included."""
        return with_children(self.postgres.pid)

    def pids(self, server: str) -> list[int]:
        """All servers that a way needs: Temporal, PostgreSQL, mail."""
        assert self._post_office is not None
        return [*self._of_server(server), self.postgres.pid, self._post_office.pid]

    def _of_server(self, server: str) -> list[int]:
        temporal = self.servers[server]
        return [temporal.pid, *([temporal.postgres.pid] if isinstance(temporal, TemporalOnPostgres) else [])]

    def heartbeats(self, server: str) -> float:
        """Heartbeats that have reached a Temporal server, by its own metrics; the real one shows none."""
        if server != "dev":
            return 0.0
        with urllib.request.urlopen(f"http://127.0.0.1:{self._metrics}/metrics", timeout=10) as answer:
            return sum(float(count) for count in _HEARTBEATS.findall(answer.read()))

    async def add_database(self, way: str) -> None:
        """Make a migrated database with the app's table, that `dsn(way)` names."""
        await self._admin.execute(f"create database bench_{way}")
        await self._admin.execute(f"alter database bench_{way} set track_functions = 'pl'")
        connection = await asyncpg.connect(self.dsn(way))
        await schema.migrate(connection)
        await connection.execute((ROOT / "infra" / "comments.sql").read_text())
        await connection.close()


def cpu_of(pid: int) -> float:
    """CPU seconds of one process so far."""
    times = psutil.Process(pid).cpu_times()
    return float(times.user + times.system)


def with_children(pid: int) -> float:
    """CPU seconds of a process and its children so far, those that have ended included."""
    process = psutil.Process(pid)
    ended = process.cpu_times()
    total = ended.user + ended.system + ended.children_user + ended.children_system
    for child in process.children():
        with suppress(psutil.NoSuchProcess):
            total += cpu_of(child.pid)
    return float(total)


@asynccontextmanager
async def rig(*, durable: bool, servers: Sequence[str] = ("dev",)) -> AsyncIterator[Rig]:
    """All servers, for as long as the context lasts.

    Args:
        durable: both PostgreSQL sync to disk, as in production.
        servers: which of `SERVERS`.
    """
    with tempfile.TemporaryDirectory(prefix="perdure-bench-") as folder:
        made = Rig(Path(folder), durable=durable, servers=servers)
        try:
            await made.open()
            yield made
        finally:
            await made.close()
