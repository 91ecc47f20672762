"""The processes beside the servers: the worker, and the commands that the project names."""

from __future__ import annotations

import shlex
import signal
import subprocess
import sys
from pathlib import Path

from perdure._dev.servers import Report
from perdure.errors import InvalidSetting
from perdure.servers.guard import GuardedProcess

PATIENCE = 30.0
"""Seconds that a command has to stop: an open page can hold up a web server for ever."""


class Supervised:
    """A command that is started again when it was killed. One that ends by itself waits for the next `start`.

    Args:
        name: for messages, and for the file that holds its process id.
        command: program and arguments.
        folder: where `NAME.pid` is written.
        report: receives messages.
    """

    def __init__(self, name: str, command: list[str], folder: Path, report: Report) -> None:
        self.name = name
        self._command = command
        self._pid_file = folder / f"{name}.pid"
        self._report = report
        self._process: GuardedProcess | None = None

    def start(self) -> None:
        """Start it where it does not run; its output goes where ours goes.

        Raises:
            InvalidSetting: there is no such program.
        """
        if self._process is not None:
            return
        try:
            self._process = GuardedProcess(self._command, ask=signal.SIGTERM, log=None)
        except FileNotFoundError as error:
            raise InvalidSetting(f"{shlex.join(self._command)}: there is no program {error.filename!r}") from None
        self._pid_file.write_text(f"{self._process.pid}\n")

    def stop(self) -> None:
        """Stop it by SIGTERM, or by SIGKILL after `PATIENCE`."""
        self._pid_file.unlink(missing_ok=True)
        process, self._process = self._process, None
        if process is None:
            return
        try:
            process.stop(timeout=PATIENCE)
        except TimeoutError as error:
            self._report(str(error))

    def restart(self) -> None:
        """Stop it and start it."""
        self.stop()
        self.start()

    def revive(self) -> None:
        """Start it again if a signal has ended it."""
        status = None if self._process is None else self._process.exit_status
        if status is None:
            return
        self.stop()
        if status < 0:
            self._report(f"{self.name} was ended by {signal.Signals(-status).name}; it is started again")
            self.start()
        else:
            self._report(f"{self.name} ended with status {status}; it is started again when a file changes")


def run(command: str) -> int:
    """Run a command to its end; its exit status."""
    try:
        return subprocess.run(split(command), check=False).returncode
    except FileNotFoundError as error:
        raise InvalidSetting(f"{command}: there is no program {error.filename!r}") from None


def split(command: str) -> list[str]:
    """The parts of a command; `python` is the interpreter that runs us.

    Raises:
        InvalidSetting: it is empty, or a quotation has no end.
    """
    try:
        parts = shlex.split(command)
    except ValueError as error:
        raise InvalidSetting(f"{command!r}: {error}") from None
    if not parts:
        raise InvalidSetting("a command is empty")
    return [sys.executable, *parts[1:]] if parts[0] == "python" else parts
