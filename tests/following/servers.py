"""A PostgreSQL server that is crashed, copied, put back, dumped, restored and replaced by its standby."""

from __future__ import annotations

import asyncio
import atexit
import shutil
import subprocess
import tempfile
from collections.abc import Coroutine
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import Self

import asyncpg

from perdure._store import schema
from perdure.servers.memory import memory
from perdure.servers.postgres import PostgresServer
from perdure.servers.postgres_binaries import postgres_binaries
from perdure.servers.postgres_user import let_in, server_account

SETTINGS = """
max_prepared_transactions = 20
shared_buffers = 16MB
max_connections = 40
wal_writer_delay = 10s
bgwriter_delay = 10s
autovacuum = off
"""
"""What only rolled-back transactions have logged stays in memory for long, so that a crash loses it."""


class Servers:
    """The primary, and what was kept of it. Everything is below one temporary folder."""

    def __init__(self) -> None:
        """Make the folder; nothing runs yet."""
        self.folder = Path(tempfile.mkdtemp(prefix="perdure-following-", dir=memory()))
        self.account = server_account()
        let_in(self.account, self.folder)
        self._binaries = postgres_binaries(self.account)
        self._number = 0
        self.primary = PostgresServer(self._copied(_clusters()[0]), durable=False)
        self.database = "app"
        self._other: PostgresServer | None = None

    @property
    def dsn(self) -> str:
        """URL of the database that the app uses now."""
        return self.primary.dsn(self.database)

    async def __aenter__(self) -> Self:
        self.primary.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for server in filter(None, (self.primary, self._other)):
            server.kill()
        shutil.rmtree(self.folder, ignore_errors=True)

    async def admin(self, statement: str) -> None:
        """Run a statement in the database `postgres`."""
        db = await asyncpg.connect(self.primary.dsn())
        await db.execute(statement)
        await db.close()

    def crash(self) -> None:
        """SIGKILL for all of PostgreSQL: what was not flushed is lost. Then start it again."""
        self.primary.kill()
        self.primary.start()

    def copy(self, *, cold: bool) -> Path:
        """A copy of the data directory: of the stopped server, or a base backup of the running one."""
        if cold:
            self.primary.stop()
            target = self._copied(self.primary.data_directory)
            self.primary.start()
        else:
            self._base_backup(target := self._new())
        return target

    def put_back(self, copy: Path) -> None:
        """The primary goes; a copy of a copy of it is started on its port, as the same server."""
        self.primary.kill()
        self.primary = PostgresServer(self._copied(copy), self.primary.port, durable=False)
        self.primary.start()

    def standby(self) -> PostgresServer:
        """Start a streaming standby."""
        target = self._new()
        self._base_backup(target, "-R")
        server = PostgresServer(target, durable=False)
        server.start()
        return server

    async def caught_up(self, standby: PostgresServer) -> None:
        """Wait until the standby has replayed what the primary has flushed."""
        db, there = await asyncpg.connect(self.primary.dsn()), await asyncpg.connect(standby.dsn())
        flushed = await db.fetchval("select pg_current_wal_flush_lsn()::text")
        while not await there.fetchval("select pg_last_wal_replay_lsn() >= $1::text::pg_lsn", flushed):
            pass
        await db.close()
        await there.close()

    async def fail_over(self, standby: PostgresServer) -> None:
        """The primary is lost; the standby, which may have been stopped before, takes over."""
        self.primary.kill()
        standby.start()
        db = await asyncpg.connect(standby.dsn())
        await db.execute("select pg_promote(true, 60)")
        await db.close()
        self.primary = standby

    def dump(self) -> Path:
        """A dump of the app's database."""
        target = self._new()
        self._run("pg_dump", "-Fc", "-f", target, self.dsn)
        return target

    async def restore(self, dump: Path, database: str) -> None:
        """Restore a dump into a database: a new one, or one that is there, of which the schema is dropped first."""
        db = await asyncpg.connect(self.primary.dsn())
        there = await db.fetchval("select true from pg_database where datname = $1", database)
        await db.close()
        if not there:
            await self.admin(f"create database {database}")
        self.database = database
        db = await asyncpg.connect(self.dsn)
        await db.execute("drop schema if exists perdure cascade; drop table if exists handled, kept")
        await db.close()
        self._run("pg_restore", "-d", self.dsn, dump)

    async def move(self, transactions: int) -> None:
        """The app's database moves by a dump to another cluster, or back to the one that it came from."""
        dump = self.dump()
        if self._other is None:
            self._other = PostgresServer(self._copied(_clusters()[1]), durable=False)
            self._other.start()
        self.primary, self._other = self._other, self.primary
        db = await asyncpg.connect(self.primary.dsn())
        await db.execute(
            f"do $$ begin for i in 1..{transactions} loop perform pg_current_xact_id(); commit; end loop; end $$"
        )
        await db.close()
        await self.restore(dump, self.database)

    def _base_backup(self, target: Path, *more: str) -> None:
        self._run("pg_basebackup", "-D", target, "-d", self.primary.dsn(), "-c", "fast", "--no-sync", *more)

    def _run(self, program: str, *arguments: str | Path) -> None:
        command = [self._binaries / program, *arguments]
        subprocess.run(command, check=True, capture_output=True, cwd=self.folder, **self.account.options)

    def _copied(self, data_directory: Path) -> Path:
        subprocess.run(["cp", "-a", data_directory, target := self._new()], check=True)
        return target

    def _new(self) -> Path:
        self._number += 1
        return self.folder / str(self._number)


@cache
def _clusters() -> tuple[Path, Path]:
    """Data directories of two clusters, made once for the process; the first has a migrated database `app`."""
    folder = Path(tempfile.mkdtemp(prefix="perdure-following-", dir=memory()))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    let_in(server_account(), folder)
    first, second = (PostgresServer(folder / name, durable=False) for name in ("first", "second"))
    for server in (first, second):
        server.start()
    _run_apart(_migrate(first))
    for server in (first, second):
        server.stop()
        with (server.data_directory / "postgresql.conf").open("a") as file:
            file.write(SETTINGS)
    return first.data_directory, second.data_directory


async def _migrate(server: PostgresServer) -> None:
    db = await asyncpg.connect(server.dsn())
    await db.execute("create database app")
    await db.close()
    db = await asyncpg.connect(server.dsn("app"))
    await schema.migrate(db)
    await db.close()


def _run_apart(work: Coroutine[object, object, None]) -> None:
    """In a thread of its own, since a loop may be running here."""
    with ThreadPoolExecutor(1) as pool:
        pool.submit(asyncio.run, work).result()
