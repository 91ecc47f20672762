"""Keeps a process running: starts it when its requirements are met, and starts it again after each end.

It has a session of its own, so that Ctrl-C reaches its supervisor alone.
"""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from contextlib import suppress
from typing import Any, Literal

from perdure._text.privacy import describe
from perdure._worker.notifying import OF_SUPERVISOR
from perdure.logs import log_event

log = logging.getLogger("perdure.worker")

WELL = 10.0
"""Seconds after which a process counts as healthy. If it ends later, it is started again at once."""
LONGEST_PAUSE = 30.0
_LAST_LINES = 5.0
"""Seconds to read the last output of an ended process. It takes longer only if a child process keeps the output
open."""
State = Literal["waiting", "starting", "running", "pausing", "stopping", "ended"]
_NOT_INHERITED = (*OF_SUPERVISOR, "PERDURE_ADMIN_DATABASE_URL", "PERDURE_TEMPORAL_DATABASE_URL")
"""Variables for a supervisor alone. The code of the app runs in its children, and has no use for the passwords of roles
that may make databases."""


def inherited_environment() -> dict[str, str]:
    """What a child process gets of the environment of this one."""
    return {name: value for name, value in os.environ.items() if name not in _NOT_INHERITED}


async def _at_once() -> None:
    pass


class Child:
    """One process and its successors.

    Attributes:
        name: the name for messages.
        state: the present state.
        since: begin of the present state, in seconds since 1970.
        starts: number of starts.
        status: exit status of the last ended process, or minus the number of the signal; None if none has ended.
        first_status: the same of the first process.
        ready: set while the process runs and has become ready.
        failed_at_first: set if the first process ended by itself with an error, and had not become ready, or if the
            system refused its start.
    """

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        environment: Mapping[str, str],
        *,
        before: Callable[[], Awaitable[None]] = _at_once,
        until_ready: Callable[[], Awaitable[None]] = _at_once,
        read: Callable[[str, asyncio.StreamReader], Coroutine[Any, Any, None]] | None = None,
        changed: Callable[[], None] = lambda: None,
    ) -> None:
        """Note the command. Nothing runs yet.

        Args:
            name: the name for messages.
            command: program and arguments. The standard input of the process ends when this process does.
            environment: the whole environment of the process.
            before: awaited before each start.
            until_ready: awaited after each start, and cancelled if the process ends meanwhile.
            read: reads the output of the process, with `name`; None = the process shares our output.
            changed: called after each change of an attribute.
        """
        self.name = name
        self.state: State = "waiting"
        self.since = time.time()
        self.starts = 0
        self.status: int | None = None
        self.first_status: int | None = None
        self.ready = asyncio.Event()
        self.failed_at_first = asyncio.Event()
        self._command, self._environment = list(command), dict(environment)
        self._before, self._until_ready, self._read, self._changed = before, until_ready, read, changed
        self._process: asyncio.subprocess.Process | None = None
        self._reading: asyncio.Task[None] | None = None
        self._began = 0.0

    @property
    def pid(self) -> int | None:
        """The process id; None while no process runs."""
        return None if self._process is None or self._process.returncode is not None else self._process.pid

    @property
    def began(self) -> float | None:
        """Start of the process, in seconds since 1970; None while no process runs."""
        return self._began if self.pid is not None else None

    def kill(self) -> None:
        """End the process by SIGKILL; `keep` then starts it again."""
        if self._process is not None:
            with suppress(ProcessLookupError):
                self._process.kill()

    def terminate(self) -> None:
        """End the process by SIGTERM; `keep` then starts it again."""
        if self._process is not None:
            with suppress(ProcessLookupError):
                self._process.terminate()

    async def keep(self) -> None:
        """Run the process, and start it again after each end, until this is cancelled."""
        pause = 1.0
        while True:
            self._is("waiting")
            began = time.monotonic()
            try:
                await self._before()
                began = time.monotonic()
                self.status = await self._run()
            except Exception as error:
                why: dict[str, object] = {"error": describe(error)}
                if isinstance(error, OSError) and error.filename is not None:
                    why["file"] = error.filename
            else:
                why = {"status": self.status}
            lived = time.monotonic() - began
            pause = 0.0 if lived > WELL and "status" in why else min(max(2 * pause, 1.0), LONGEST_PAUSE)
            sentence = "a process ended; it is replaced" if "status" in why else "a process can't be started"
            log_event(log, sentence, level=logging.ERROR, process=self.name, **why, pause=pause)
            self._is("pausing")
            await asyncio.sleep(pause)

    async def end(self, patience: float) -> None:
        """Stop the process by SIGTERM, or after `patience` seconds by SIGKILL. Cancel and await `keep` first."""
        process = self._process
        if process is not None and process.returncode is None:
            self._is("stopping")
            with suppress(ProcessLookupError):
                process.terminate()
            try:
                await asyncio.wait_for(process.wait(), patience)
            except TimeoutError:
                log_event(log, "a process did not stop in time; it is killed", level=logging.ERROR, process=self.name)
                with suppress(ProcessLookupError):
                    process.kill()
                await process.wait()
            self.status = process.returncode
        if self._reading is not None:  # the last lines show how the process stopped
            await asyncio.wait({self._reading}, timeout=_LAST_LINES)
        self._is("ended")

    async def _begin(self) -> asyncio.subprocess.Process:
        output = None if self._read is None else asyncio.subprocess.PIPE
        try:
            return await asyncio.create_subprocess_exec(
                *self._command,
                env=self._environment,
                stdin=asyncio.subprocess.PIPE,
                stdout=output,
                stderr=None if output is None else asyncio.subprocess.STDOUT,
                start_new_session=True,
            )
        except OSError:
            if self.starts == 0:
                self.failed_at_first.set()
            raise

    async def _run(self) -> int:
        process = self._process = await self._begin()
        self.starts += 1
        self._began = time.time()
        self._is("starting")
        becoming_ready = asyncio.create_task(self._become_ready())
        if self._read is not None and process.stdout is not None:
            # The output is read to its end, also after a cancellation: the last lines show how the process stopped.
            self._reading = asyncio.create_task(self._read(self.name, process.stdout))
        try:
            status = await process.wait()
            if self.starts == 1:
                self.first_status = status
                if status > 0 and not self.ready.is_set():
                    self.failed_at_first.set()
            return status
        finally:
            self.ready.clear()
            becoming_ready.cancel()

    async def _become_ready(self) -> None:
        await self._until_ready()
        self.ready.set()
        self._is("running")

    def _is(self, state: State) -> None:
        self.state, self.since = state, time.time()
        try:
            self._changed()
        except OSError as error:  # a full disk must not end the supervision
            log_event(log, "can't write what runs", level=logging.ERROR, process=self.name, error=describe(error))
