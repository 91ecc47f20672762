"""`perdure dev` in a process and a folder of its own, as a developer uses it."""

from __future__ import annotations

import asyncio
import os
import shlex
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import psutil

from tests.deadline import in_time, until
from tests.nested import outside_pytest

RUNS = "perdure.worker: running"
_SETTINGS = ("PERDURE_", "TEMPORAL_", "MAKE", "MFLAGS")
PERDURE_DEV = (sys.executable, "-m", "perdure.cli", "dev")


class Developing:
    """A `perdure dev` that runs.

    Attributes:
        folder: of the project.
        text: what it and its processes have written.
    """

    def __init__(self, folder: Path, process: asyncio.subprocess.Process) -> None:
        self.folder = folder
        self.text = ""
        self.process = process
        self._reader = asyncio.create_task(self._read())

    async def writes(self, what: str, times: int = 1) -> None:
        """Wait until `what` was written so many times."""

        def there() -> bool:
            assert not self._reader.done() or self.text.count(what) >= times, f"it ended without {what!r}"
            return self.text.count(what) >= times

        try:
            await until(there, f"{what!r} in the output")
        except AssertionError as error:
            error.add_note(self.text)
            raise

    async def stop(self) -> int:
        """Stop it by SIGTERM; its exit status."""
        if self.process.returncode is None:
            self.process.terminate()
        return await self.ended()

    async def ended(self) -> int:
        """Its exit status, when all of its output is read."""
        await in_time(self._reader)
        return await in_time(self.process.wait())

    def environment(self) -> dict[str, str]:
        """What `. .perdure/env` sets."""
        lines = (self.folder / ".perdure" / "env").read_text().splitlines()
        return dict(shlex.split(line)[1].split("=", 1) for line in lines)

    def pid(self, name: str) -> int:
        """The process id of a command that it runs."""
        return int((self.folder / ".perdure" / f"{name}.pid").read_text())

    async def run(self, *arguments: str) -> tuple[int, str]:
        """Run a Python module in another terminal of this project: exit status and output."""
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", *arguments),
            cwd=self.folder,
            env={**clean_environment(), **self.environment()},
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        output = (await in_time(process.communicate()))[0].decode()
        assert process.returncode is not None
        return process.returncode, output

    async def _read(self) -> None:
        assert self.process.stdout is not None
        async for line in self.process.stdout:
            self.text += line.decode()


def clean_environment() -> dict[str, str]:
    """This process's, without the settings of Perdure, Temporal, make and pytest; its programs come first."""
    kept = {name: value for name, value in outside_pytest().items() if not name.startswith(_SETTINGS)}
    return {**kept, "PATH": f"{Path(sys.executable).parent}:{kept['PATH']}"}


@asynccontextmanager
async def developing(
    folder: Path, *arguments: str, environment: Mapping[str, str] = {}, command: tuple[str, ...] = PERDURE_DEV
) -> AsyncIterator[Developing]:
    """Start `perdure dev` in a folder; stop it at the end, and see that none of its processes is left."""
    process = await asyncio.create_subprocess_exec(
        *(*command, *arguments),
        cwd=folder,
        env={**clean_environment(), **environment},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        limit=1 << 20,
    )
    running = Developing(folder, process)
    try:
        yield running
    finally:
        await running.stop()
        await until(lambda: left(folder) == [], "the end of all processes")


def left(folder: Path) -> list[str]:
    """The processes that work in a folder, or name it in their command line."""
    found = []
    for each in psutil.process_iter(["cmdline", "cwd"]):
        line = " ".join(each.info["cmdline"] or [])
        if each.pid != os.getpid() and (str(folder) in line or (each.info["cwd"] or "").startswith(str(folder))):
            found.append(line)
    return found
