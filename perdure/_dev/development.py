"""`perdure dev`: servers that keep their data; a worker and a console that are started again when a file changes."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import AsyncGenerator, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from watchfiles import PythonFilter, awatch
from watchfiles.main import FileChange

from perdure._dev import processes
from perdure._dev.binding import namespace_of, recover_where_lost, register
from perdure._dev.folder import NAME, Folder
from perdure._dev.processes import Supervised
from perdure._dev.servers import OF_SERVERS, Report, Servers, make_database, running
from perdure.settings import settings

_PERDURE = (sys.executable, "-m", "perdure.cli")
_LOOK_EVERY = 300
"""Milliseconds between two looks at files and processes."""


@dataclass(frozen=True)
class Development:
    """What `perdure dev` runs.

    Attributes:
        app: the App of the worker, as `package.module:name` or `package.module`; None = no worker.
        prepare: a command that is run before each start of the worker, to make or change the app's own tables.
        beside: commands that run beside the worker.
        console: whether the web console runs, too.
        project: the folder that is watched, and that holds `.perdure`.
    """

    app: str | None
    prepare: str | None
    beside: tuple[str, ...]
    console: bool
    project: Path

    async def run(self, report: Report) -> None:
        """Run until SIGTERM or Ctrl-C.

        Raises:
            InvalidSetting, NotThisDatabase, NotNow: see the functions that are called.
            RuntimeError, OSError: a server could not be started; the message has the reason.
        """
        folder = Folder(self.project)
        with folder.held():
            ports = folder.ports(*OF_SERVERS, "console")
            with running(folder, ports) as servers:
                await self._prepare(servers, folder, report)
                console = ports["console"] if self.console else None
                if console is not None:
                    report(f"Console     http://127.0.0.1:{console}/ (for development: nobody signs in)")
                report(f"In another terminal: . {NAME}/env")
                await self._work(folder, console, report)

    async def _prepare(self, servers: Servers, folder: Folder, report: Report) -> None:
        await make_database(servers)
        namespace = await namespace_of(settings().model_copy(update={"database_url": servers.database_url}))
        await register(servers.temporal, namespace)
        environment = {
            "PERDURE_DATABASE_URL": servers.database_url,
            "TEMPORAL_ADDRESS": servers.temporal,
            "TEMPORAL_NAMESPACE": namespace,
            "PERDURE_WORKFLOW_SANDBOX": "always",
            "PERDURE_CONSOLE_FOLDER": str(folder.path / "console"),
        }
        if servers.web_ui:
            environment["PERDURE_WEB_UI"] = servers.web_ui
        os.environ.update(environment)
        await recover_where_lost(settings(), report)
        folder.write_environment(environment)
        report(f"PostgreSQL  {settings().model_dump()['database_url']}")
        report(f"Temporal    {servers.temporal}, namespace {namespace}")
        if servers.web_ui:
            report(f"Web UI      {servers.web_ui}/namespaces/{namespace}/workflows")

    async def _work(self, folder: Folder, console: int | None, report: Report) -> None:
        beside = [Supervised(_name(each), processes.split(each), folder.path, report) for each in self.beside]
        loaded = [Supervised(name, words, folder.path, report) for name, words in self._commands(console)]
        begun = False
        try:
            async for changes in self._changes():  # the first look is when all files are watched
                if changes:
                    shown = sorted({str(Path(path).relative_to(folder.project)) for _, path in changes})
                    report(f"changed: {', '.join(shown)}")
                if (changes or not begun) and self._prepared(report):
                    for each in beside:
                        each.start()
                    for each in loaded:
                        each.restart()
                begun = True
                for each in (*beside, *loaded):
                    each.revive()
        finally:
            for each in (*loaded, *reversed(beside)):
                each.stop()

    def _commands(self, console: int | None) -> Iterator[tuple[str, list[str]]]:
        """Name and command of each process that loads the app, and is started again when a file changes."""
        if self.app is not None:
            yield "worker", [*_PERDURE, "worker", self.app]
        if console is not None:
            app = [] if self.app is None else ["--app", self.app]
            yield "console", [*_PERDURE, "console", "--insecure-local", "--port", str(console), *app]

    def _prepared(self, report: Report) -> bool:
        if self.prepare is None:
            return True
        if (status := processes.run(self.prepare)) != 0:
            report(f"{self.prepare} ended with status {status}; it is run again when a file changes")
        return status == 0

    def _changes(self) -> AsyncGenerator[set[FileChange], None]:
        """The files that have changed since the last look: an empty set where there are none."""
        ours = PythonFilter(ignore_paths=[self.project / NAME], extra_extensions=[".sql", ".html"])
        return awatch(self.project, watch_filter=ours, rust_timeout=_LOOK_EVERY, yield_on_timeout=True)


def _name(command: str) -> str:
    """A short name of a command: the module, or the program."""
    parts = command.split()
    return parts[2] if parts[:2] == ["python", "-m"] and len(parts) > 2 else Path(parts[0]).name if parts else ""


def develop(what: Development, report: Report) -> None:
    """Run it, and end in order on SIGTERM and on Ctrl-C."""

    async def until_stopped() -> None:
        task = asyncio.ensure_future(what.run(report))
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, task.cancel)
        with suppress(asyncio.CancelledError):
            await task

    asyncio.run(until_stopped())
