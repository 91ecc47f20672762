"""The command at a terminal, as a person uses it."""

from __future__ import annotations

import asyncio
import codecs
import os
import pty
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from tests.deadline import in_time
from tests.world import World


class OnTerminal:
    """`perdure` in a process of its own, at a terminal."""

    def __init__(self, process: asyncio.subprocess.Process, terminal: int) -> None:
        self._process = process
        self._terminal = terminal
        self.text = ""
        self._decoder = codecs.getincrementaldecoder("utf-8")()
        asyncio.get_running_loop().add_reader(terminal, self._read)

    def type(self, text: str) -> None:
        """As a person does."""
        os.write(self._terminal, text.encode())

    def interrupt(self) -> None:
        """Ctrl-C."""
        self._process.send_signal(signal.SIGINT)

    async def ended(self) -> int:
        """Its exit status."""
        status = await in_time(self._process.wait())
        self._read()
        return status

    def _read(self) -> None:
        try:
            self.text += self._decoder.decode(os.read(self._terminal, 100_000))
        except (BlockingIOError, OSError):
            asyncio.get_running_loop().remove_reader(self._terminal)


@asynccontextmanager
async def at_terminal(world: World, *arguments: str) -> AsyncIterator[OnTerminal]:
    ours, its = pty.openpty()
    os.set_blocking(ours, False)
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "perdure.cli", *arguments),
        env={**world.environment(), "TERM": "xterm", "COLUMNS": "200"},
        stdin=its,
        stdout=its,
        stderr=its,
    )
    os.close(its)
    command = OnTerminal(process, ours)
    try:
        yield command
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
        asyncio.get_running_loop().remove_reader(ours)
        os.close(ours)
