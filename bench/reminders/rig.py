"""Servers, a provider that does nothing, a worker, and what they hold: new for each side."""

from __future__ import annotations

import asyncio
import os
import signal
import sqlite3
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from tempfile import TemporaryDirectory

import asyncpg
import psutil

from infra.telephony.server import ACCOUNT, TOKEN, TelephonyServer
from perdure._store import schema
from perdure.servers.guard import GuardedProcess
from perdure.servers.postgres import PostgresServer
from perdure.servers.temporal import TemporalServer

ROOT = Path(__file__).parents[2]
SENDER = "+15005550006"
_SIZES = """
    select relname, n_live_tup, pg_total_relation_size(relid) from pg_stat_user_tables
    where schemaname in ('perdure', 'reminders')"""


@dataclass(frozen=True, slots=True)
class Held:
    """What there is at one moment; bytes are resident memory, or of tables with their indexes.

    Attributes:
        rows: of the app's database and of Temporal's, by table.
    """

    worker: int
    temporal: int
    database: int
    temporal_file: int
    rows: dict[str, int]


@dataclass(slots=True)
class Rig:
    """One side's servers."""

    postgres: PostgresServer
    temporal: TemporalServer
    file: Path
    telephony: TelephonyServer
    database: asyncpg.Connection[asyncpg.Record]
    worker: GuardedProcess
    log: Path

    async def held(self) -> Held:
        """What is held now, after a moment in which the last of it is written down."""
        await asyncio.sleep(5)
        await self.database.execute("vacuum analyze")
        tables = await self.database.fetch(_SIZES)
        with closing(sqlite3.connect(f"file:{self.file}?mode=ro", uri=True, timeout=60)) as file:
            rows = {f"temporal.{name}": count for name, count in _counts(file)}
        rows |= {f"app.{row['relname']}": row["n_live_tup"] for row in tables}
        return Held(
            worker=psutil.Process(self.worker.pid).memory_info().rss,
            temporal=psutil.Process(self.temporal.pid).memory_info().rss,
            database=sum(row["pg_total_relation_size"] for row in tables),
            temporal_file=sum(each.stat().st_size for each in self.file.parent.glob("temporal.db*")),
            rows=rows,
        )

    def cpu(self) -> tuple[float, float, float]:
        """CPU seconds of worker, Temporal and PostgreSQL so far."""
        return (_cpu(self.worker.pid), _cpu(self.temporal.pid), _cpu(self.postgres.pid))

    async def accepted(self, count: int, until: datetime) -> dict[str, datetime]:
        """When the provider accepted each, by telephone number; waits for so many, until a moment."""
        while len(self.telephony.accepted) < count and datetime.now(until.tzinfo) < until:  # noqa: ASYNC110
            await asyncio.sleep(0.2)
        return {str(line["to"]): datetime.fromisoformat(line["at"]) for line in self.telephony.asked}


@asynccontextmanager
async def rig(*command: str, cached: int) -> AsyncIterator[Rig]:
    """Start everything; stop it at the end.

    Args:
        command: of the worker, for this Python.
        cached: how many workflows perdure's worker keeps in memory.
    """
    with TemporaryDirectory() as folder:
        file, log = Path(folder) / "temporal.db", Path(folder) / "worker.log"
        with PostgresServer() as postgres, TemporalServer(db_file=file) as temporal:
            database = await asyncpg.connect(postgres.dsn())
            await schema.migrate(database)
            await database.execute((ROOT / "activities" / "reminders" / "tables.sql").read_text())
            async with TelephonyServer() as telephony:
                environment = {
                    **os.environ,
                    "TEMPORAL_ADDRESS": temporal.address,
                    "PERDURE_DATABASE_URL": postgres.dsn(),
                    "PERDURE_RECONCILIATION_EVERY": "0",
                    "PERDURE_MAX_CACHED_WORKFLOWS": str(cached),
                    "PERDURE_LOG": "text",
                    "PERDURE_TELEPHONY_API_URL": telephony.origin,
                    "PERDURE_TELEPHONY_ACCOUNT_SID": ACCOUNT,
                    "PERDURE_TELEPHONY_AUTH_TOKEN": TOKEN,
                    "PERDURE_TELEPHONY_SENDER": SENDER,
                }
                whole = [sys.executable, "-m", *command]
                worker = GuardedProcess(whole, ask=signal.SIGTERM, log=log, cwd=ROOT, env=environment)
                try:
                    await _runs(log, worker)
                    yield Rig(postgres, temporal, file, telephony, database, worker, log)
                finally:
                    worker.stop()
                    await database.close()


def number(patient: int) -> str:
    """A telephone number of its own."""
    return f"+1202{patient:07}"


async def _runs(log: Path, worker: GuardedProcess) -> None:
    while "perdure.worker: running" not in (text := await asyncio.to_thread(log.read_text)):
        if not psutil.pid_exists(worker.pid):
            raise RuntimeError(text)
        await asyncio.sleep(0.1)


def _counts(file: sqlite3.Connection) -> list[tuple[str, int]]:
    names = [name for (name,) in file.execute("select name from sqlite_master where type = 'table'")]
    plain = [name for name in names if not name.startswith("sqlite_") and "fts" not in name]
    return [(name, file.execute(f'select count(*) from "{name}"').fetchone()[0]) for name in plain]


def _cpu(pid: int) -> float:
    """CPU seconds of a process and all that it has started."""
    process = psutil.Process(pid)
    used = 0.0
    for each in (process, *process.children(recursive=True)):
        try:
            times = each.cpu_times()
        except psutil.NoSuchProcess:
            continue
        used += times.user + times.system
    return used
