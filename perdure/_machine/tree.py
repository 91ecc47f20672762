"""The processes of one machine: in which order they start and stop, and what is reported of them meanwhile."""

from __future__ import annotations

import asyncio
import logging
from contextlib import ExitStack
from typing import Any

import asyncpg

from perdure import database
from perdure._machine import databases, temporal
from perdure._machine.beside import Beside
from perdure._machine.folder import WEB_UI
from perdure._machine.hanging import Hanging
from perdure._machine.lines import Lines
from perdure._machine.listening import until_free, until_listening
from perdure._machine.machine import Machine
from perdure._machine.readiness import sockets
from perdure._machine.replaced_files import ReplacedFiles
from perdure._machine.schemas import make_schemas
from perdure._services.health import EventLoop, Health
from perdure._services.services import Services
from perdure._text.privacy import describe
from perdure._worker.child import Child, inherited_environment
from perdure._worker.notifying import (
    READY,
    SOCKET,
    WATCHDOG,
    notify,
    notify_stopping,
    watchdog_interval,
)
from perdure._worker.processes import WorkerProcess, patience, served
from perdure.errors import NotPermitted
from perdure.logs import log_event
from perdure.servers.temporal_binary import obtain_temporal
from perdure.servers.temporal_on_postgres import FRONTEND, ServerDatabase, server_command
from perdure.servers.temporal_programs import find_web_ui, obtain_programs, obtain_web_ui
from perdure.settings import Settings

log = logging.getLogger("perdure.up")

PATIENCE_OF_OTHERS = 30.0
"""Seconds that each process has to stop that is no worker."""
_OPEN = (
    "Temporal and its Web UI listen on 127.0.0.1 alone, without authentication: every user of this machine can use them"
)
_TRIAL = "a trial: Temporal's dev server keeps its workflows in a file. Temporal does not support it for production"


class Tree:
    """The processes of a machine.

    Args:
        machine: what runs. Its folder is held.
        config: the settings of the workers.
    """

    def __init__(self, machine: Machine, config: Settings) -> None:
        self._machine, self._config = machine, config
        self._lines = Lines(as_json=config.log == "json")
        self._ports = machine.folder.ports(machine.port)
        self._address = f"127.0.0.1:{self._ports[FRONTEND]}"
        self._version = ""
        self._children: list[Child] = []
        self._workers: list[WorkerProcess] = []
        self._keeping: list[asyncio.Task[None]] = []
        self._health, self._loop = Health("supervisor"), EventLoop()
        self._services = Services()
        self._ready = False

    async def run(self, stop: asyncio.Task[bool]) -> None:
        """Run until `stop` is done.

        Raises:
            PerdureError: what it needs can't be made; the message has the reason.
            RuntimeError, OSError: a program can't be had.
        """
        beating = asyncio.create_task(_beat())
        self._changed()
        self._health.watch(self._loop.pulses)
        await self._loop.start()
        with ExitStack() as stack:
            environment = self._write_environment()
            self._workers = self._make_workers(stack, environment)
            stack.enter_context(served(self._config, self._health, self._workers))
            starting = asyncio.create_task(self._start(environment))
            try:
                await asyncio.wait({stop, starting}, return_when=asyncio.FIRST_COMPLETED)
                if starting.done():
                    starting.result()
                await stop
            finally:
                starting.cancel()
                await self._end()
        await self._loop.stop()
        beating.cancel()

    async def _start(self, environment: dict[str, str]) -> None:
        log_event(log, "starts", folder=str(self._machine.folder.path))
        await until_free(self._ports[FRONTEND], self._waits, PATIENCE_OF_OTHERS)
        server = await (self._trial_server() if self._machine.trial else self._server())
        await self._migrated()
        await self._started(server)
        if (web_ui := await self._web_ui()) is not None:
            await self._started(web_ui)
        await asyncio.gather(*(self._started(each.child, each) for each in self._workers))
        for name, command in self._machine.beside:
            given = name, temporal.ending_with_parent(command), inherited_environment() | environment
            each = Beside(*given, read=self._lines.read, changed=self._changed)
            await self._started(each.child, each)
        self._ready = True
        self._health.runs()
        self._changed()
        notify(READY, f"STATUS={len(self._workers)} workers, Temporal {self._version} at {self._address}")
        log_event(log, "ready", temporal=self._address, version=self._version, namespace=self._machine.namespace)
        log_event(log, _OPEN)

    async def _trial_server(self) -> Child:
        program = await asyncio.to_thread(obtain_temporal)
        self._version = "dev server"
        log_event(log, _TRIAL)
        folder, namespace = self._machine.folder.path, self._machine.namespace
        command = temporal.ending_with_parent([str(program), *temporal.try_options(self._ports, folder, namespace)])
        child = self._child("temporal", command, temporal.environment_of_machine(), until_ready=self._serves)
        self._watch(Hanging(child, self._address, self._machine.namespace, temporal.check_parts))
        return child

    async def _server(self) -> Child:
        machine = self._machine
        programs = await asyncio.to_thread(obtain_programs)
        temporal.check_step(machine.folder.last_version(), programs.version)
        made: list[ServerDatabase] = []

        async def make() -> None:
            given = (self._config.database_url, machine.admin_url, machine.temporal_url, machine.folder)
            made.append(await databases.make_databases(*given))
            await make_schemas(programs, made[-1])

        async def until_made() -> None:  # the server ends if PostgreSQL is away while it starts
            await databases.until_there(make, self._waits)

        await until_made()
        self._version = programs.version
        machine.folder.note_version(programs.version)
        environment = temporal.environment_of_server(made[-1], self._ports, machine.folder.path)
        command = temporal.ending_with_parent(server_command(programs))
        child = self._child("temporal", command, environment, before=until_made, until_ready=self._serves)

        async def postgres_answers() -> None:
            await databases.check_connection(made[-1])

        self._watch(Hanging(child, self._address, machine.namespace, temporal.check_parts, postgres_answers))
        if files := made[-1].tls_files:
            replaced = ReplacedFiles(child, files, postgres_answers)
            self._health.watch(replaced.pulses)
            await self._services.start(replaced)
        return child

    def _watch(self, hanging: Hanging) -> None:
        self._health.watch([hanging.pulse])
        self._keeping.append(asyncio.create_task(hanging.watch()))

    async def _serves(self) -> None:
        """Another server that has this port is not taken for this one: its Temporal is another installation's."""
        await until_listening(lambda: self._children[0].pid, self._ports[FRONTEND])
        await temporal.until_serving(self._address, self._machine.namespace, self._machine.retention)

    async def _web_ui(self) -> Child | None:
        machine = self._machine
        if machine.trial or machine.web_ui is False:  # the dev server has one
            return None
        program = await asyncio.to_thread(obtain_web_ui) if machine.web_ui else find_web_ui()
        if program is None:
            return None
        command = temporal.web_ui_command(program, self._ports, machine.folder.path, machine.namespace)
        return self._child("web-ui", command, temporal.environment_of_machine())

    def _make_workers(self, stack: ExitStack, environment: dict[str, str]) -> list[WorkerProcess]:
        notified = stack.enter_context(sockets(self._machine.workers))
        workers = [
            WorkerProcess(
                self._machine.app,
                index,
                self._config,
                {**environment, SOCKET: readiness.address},
                before=self._servers_answer,
                until_ready=readiness.until_ready,
                read=self._lines.read,
                changed=self._changed,
            )
            for index, readiness in enumerate(notified, start=1)
        ]
        self._health.watch([each.pulse for each in workers])
        return workers

    async def _servers_answer(self) -> None:
        """A worker ends if Temporal or PostgreSQL is away while it starts."""
        await self._children[0].ready.wait()
        await databases.until_there(self._postgres_answers, self._waits)

    async def _postgres_answers(self) -> None:
        async with database.open_pool(self._config, "perdure up", command_timeout=10) as pool:
            await pool.execute("select 1")

    async def _migrated(self) -> None:
        """Bring the schema `perdure` of the app's database up to date, as `perdure migrate` does."""

        async def migrate() -> None:
            name = "perdure up"
            async with (
                database.open_pool(self._config, name, command_timeout=120) as pool,
                pool.acquire() as connection,
            ):
                try:
                    await database.migrate(connection)
                except asyncpg.InsufficientPrivilegeError as error:
                    raise NotPermitted(
                        f"the role of PERDURE_DATABASE_URL may not change the schema perdure ({error.args[0]}): "
                        "run `perdure migrate` as its owner, then start again"
                    ) from error

        await databases.until_there(migrate, self._waits)

    def _child(self, name: str, command: list[str], environment: dict[str, str], **more: Any) -> Child:
        return Child(name, command, environment, read=self._lines.read, changed=self._changed, **more)

    async def _started(self, child: Child, probed: WorkerProcess | Beside | None = None) -> None:
        self._children.append(child)
        self._keeping.append(asyncio.create_task(child.keep() if probed is None else probed.kept()))
        await child.ready.wait()

    async def _end(self) -> None:
        """The last one that was started stops first; the workers stop together."""
        self._ready = False
        self._health.stops()
        notify_stopping(patience_of_all(self._config))
        log_event(log, "stopping")
        await self._services.stop()
        for task in self._keeping:
            task.cancel()
        await asyncio.gather(*self._keeping, return_exceptions=True)
        workers = [each.child for each in self._workers]
        others = [each for each in reversed(self._children) if each not in workers]
        beside = [each for each in others if each.name in dict(self._machine.beside)]
        for each in beside:
            await each.end(PATIENCE_OF_OTHERS)
        await asyncio.gather(*(each.end(patience(self._config)) for each in workers))
        for each in others[len(beside) :]:
            self._lines.muted.add(each.name)  # Temporal logs hundreds of errors while it stops
            await each.end(PATIENCE_OF_OTHERS)
        log_event(log, "stopped")

    def _write_environment(self) -> dict[str, str]:
        machine = self._machine
        environment = {"TEMPORAL_ADDRESS": self._address, "TEMPORAL_NAMESPACE": machine.namespace}
        if machine.trial or machine.web_ui or (machine.web_ui is None and find_web_ui()):
            environment["PERDURE_WEB_UI"] = f"http://127.0.0.1:{self._ports[WEB_UI]}"
        if machine.beside and self._config.console_folder is None:  # for `perdure console token`, too
            environment["PERDURE_CONSOLE_FOLDER"] = str(machine.folder.path / "console")
        machine.folder.write_environment(environment)
        return environment

    def _waits(self, why: str) -> None:
        log_event(log, why, level=logging.WARNING)
        notify(f"STATUS={why}")

    def _changed(self) -> None:
        status = {
            "app": self._machine.app,
            "ready": self._ready,
            "temporal": self._address,
            "version": self._version,
            "namespace": self._machine.namespace,
            "processes": [_shown(each) for each in self._children],
        }
        try:
            self._machine.folder.write_status(status)
        except OSError as error:  # a full disk must not end what runs
            log_event(log, "can't write what runs", level=logging.ERROR, error=describe(error))


def patience_of_all(config: Settings) -> float:
    """Seconds that a supervisor must leave it to stop."""
    return patience(config) + 3 * PATIENCE_OF_OTHERS


def _shown(child: Child) -> dict[str, Any]:
    return {
        "name": child.name,
        "state": child.state,
        "since": child.since,
        "pid": child.pid,
        "restarts": max(child.starts - 1, 0),
        "last_status": child.status,
    }


async def _beat() -> None:
    """Notify the watchdog of systemd as long as the event loop of this process runs."""
    interval = watchdog_interval()
    while interval is not None:
        notify(WATCHDOG)
        await asyncio.sleep(interval)
