"""Everything that the application needs, on this machine: PostgreSQL, Temporal, a mail server, workers.

What it starts listens on 127.0.0.1 and ends with it.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import asyncpg

from infra.restartable import Restartable
from perdure import database
from perdure.servers.guard import GuardedProcess
from perdure.servers.ports import free_port
from perdure.servers.postgres import PostgresServer
from perdure.servers.progress import progress
from perdure.servers.temporal import TemporalServer

MAIL_SECRET = "a-secret-of-demonstrations-on-this-machine"
ROOT = Path(__file__).parent.parent
COMMENTS = ROOT / "infra" / "comments.sql"


class Stack:
    """The servers and workers of one run.

    Args:
        folder: logs, and whatever is kept.
        keep: keep the databases there, so that the next run goes on from them.
        app: what its workers run.
        tables: SQL that makes what the app needs beside perdure's schema.
        mail: whether there is a mail server.
    """

    def __init__(
        self,
        folder: Path,
        *,
        keep: bool = False,
        app: str = "workers.comments.app:app",
        tables: Path = COMMENTS,
        mail: bool = True,
    ) -> None:
        self.folder = folder
        self.maildir, self.mail_log = folder / "maildir", folder / "mail.log"
        self.postgres = PostgresServer(folder / "postgres" if keep else None)
        self.temporal = TemporalServer(
            ui_port=free_port(),
            db_file=folder / "temporal.db" if keep else None,
            log_file=folder / "temporal.log",
        )
        self.mail_port = free_port()
        self.workers: list[WorkerProcess] = []
        self._app, self._tables, self._has_mail = app, tables, mail
        self._mail: GuardedProcess | None = None

    @asynccontextmanager
    async def up(self) -> AsyncIterator[Stack]:
        """Start all servers; stop them, and every worker, at the end."""
        self.folder.mkdir(parents=True, exist_ok=True)
        try:
            with progress("starting PostgreSQL"):
                await asyncio.to_thread(self.postgres.start)
            await asyncio.to_thread(self.temporal.start)  # has progress lines of its own
            if self._has_mail:
                await self._start_mail()
            await self._prepare_database()
            yield self
        finally:
            for worker in self.workers:
                await worker.end()
            if self._mail is not None and self._mail.running:
                self._mail.stop()
            self.temporal.close()
            self.postgres.close()

    @property
    def dsn(self) -> str:
        """The app's database."""
        return self.postgres.dsn()

    def environment(self) -> dict[str, str]:
        """Settings of a worker or client of this stack."""
        return {
            "PERDURE_DATABASE_URL": self.dsn,
            "TEMPORAL_ADDRESS": self.temporal.address,
            "PERDURE_MAIL_PORT": str(self.mail_port),
            "PERDURE_MAIL_LOG": str(self.mail_log),
            "PERDURE_MAIL_STARTTLS": "never",
            "PERDURE_MAIL_SECRET": MAIL_SECRET,
        }

    async def start_worker(self, name: str, **settings: str) -> WorkerProcess:
        """A worker process; it logs to `<folder>/<name>.log`."""
        environment = {**os.environ, **self.environment(), **settings}
        worker = WorkerProcess(name, self.folder / f"{name}.log", environment, self._app)
        self.workers.append(worker)
        await worker.start()
        return worker

    async def _start_mail(self) -> None:
        self._mail = GuardedProcess(
            [
                *(sys.executable, "-m", "infra.mail.server", "--port", str(self.mail_port)),
                *("--maildir", str(self.maildir), "--log", str(self.mail_log)),
            ],
            ask=signal.SIGTERM,
            log=self.folder / "mail-server.log",
            cwd=ROOT,
        )
        await _until_listening(self.mail_port)

    async def _prepare_database(self) -> None:
        connection = await asyncpg.connect(self.dsn)
        try:
            await database.migrate(connection)
            await connection.execute(self._tables.read_text())
        finally:
            await connection.close()


class WorkerProcess(Restartable):
    """`perdure worker` in a process of its own."""

    def __init__(self, name: str, log: Path, environment: dict[str, str], app: str) -> None:
        self.name = name
        self.log = log
        self._environment, self._app = environment, app

    async def start(self) -> None:
        """Start it and wait until it reports that it runs.

        Raises:
            RuntimeError: it ended instead; the message holds its output.
        """
        begin = self.log.stat().st_size if self.log.exists() else 0
        self._process = GuardedProcess(
            [sys.executable, "-m", "perdure.cli", "worker", self._app],
            ask=signal.SIGTERM,
            log=self.log,
            cwd=ROOT,
            env=self._environment,
        )
        while b"perdure.worker: running" not in self._said(begin):
            if not self._process.running:
                raise RuntimeError(f"worker {self.name} did not start: {self._said(begin).decode(errors='replace')}")
            await asyncio.sleep(0.05)

    def _said(self, begin: int) -> bytes:
        with self.log.open("rb") as log:
            log.seek(begin)
            return log.read()


async def _until_listening(port: int) -> None:
    for _ in range(200):
        try:
            _, writer = await asyncio.open_connection("127.0.0.1", port)
        except ConnectionRefusedError:
            await asyncio.sleep(0.05)
        else:
            writer.close()
            return
    raise RuntimeError(f"the mail server did not start on port {port}")
