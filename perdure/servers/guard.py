"""A server process that does not outlive the process that started it, not even one killed by SIGKILL.

A small child of ours watches: when its parent changes we are gone; it then signals the server to stop, and
tidies up.
"""

import argparse
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import Any

import psutil

_INTERVAL = 0.2  # seconds between two looks at whether we are still there
_MERCY = 10.0  # seconds that a server has to stop after it was asked to


class GuardedProcess:
    """A running server and its guard."""

    def __init__(
        self,
        command: Sequence[str | Path],
        *,
        ask: signal.Signals,
        log: Path | None,
        remove: Path | None = None,
        **options: Any,
    ) -> None:
        """Start `command`.

        Args:
            command: what to run; in a session of its own, so that Ctrl-C reaches us alone and we decide.
            ask: the signal that makes it stop in good order.
            log: what it writes goes here, appended; None = where our own output goes.
            remove: a directory to remove when we die without having stopped it.
            options: for `subprocess.Popen`, e.g. `user`.
        """
        self._ask = ask
        self._name = Path(command[0]).name
        with log.open("ab") if log else nullcontext() as output:
            self._server = subprocess.Popen(
                [str(part) for part in command],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT if log else None,
                start_new_session=True,
                **options,
            )
        self._guard = _start_guard(self._server.pid, ask, remove)

    @property
    def pid(self) -> int:
        """The server's process id."""
        return self._server.pid

    @property
    def running(self) -> bool:
        """Whether it has not ended; a paused one runs."""
        return self.exit_status is None

    @property
    def exit_status(self) -> int | None:
        """How it ended: the exit status, or minus the number of the signal; None while it runs."""
        status = self._server.poll()
        if status is not None:  # also one that ended by itself leaves no guard
            self._dismiss_guard()
        return status

    def stop(self, ask: signal.Signals | None = None, *, timeout: float = 120.0) -> None:
        """Ask it to stop, wait at most `timeout` seconds, then kill it and what it started.

        Raises:
            TimeoutError: if it had to be killed. It is gone then.
        """
        if self.running:
            self._server.send_signal(ask or self._ask)
            self._server.send_signal(signal.SIGCONT)  # a paused one handles no other signal
        try:
            self._server.wait(timeout)
        except subprocess.TimeoutExpired:
            self.kill()
            raise TimeoutError(
                f"{self._name} (pid {self.pid}) did not stop within {timeout} s and was killed"
            ) from None
        self._dismiss_guard()

    def kill(self) -> None:
        """Kill it and what it started by SIGKILL, as a crash does; return when all of it is gone."""
        children = _kill_family(psutil.Process(self.pid)) if self.running else []
        self._server.wait()
        _wait_until_dead(children)
        self._dismiss_guard()

    def pause(self) -> None:
        """Freeze it by SIGSTOP: connections stay open and nobody answers. Returns once all its threads have stopped."""
        self._server.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, self.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)

    def resume(self) -> None:
        """Let a frozen one go on."""
        self._server.send_signal(signal.SIGCONT)

    def _dismiss_guard(self) -> None:
        self._guard.kill()
        self._guard.wait()


def _start_guard(server: int, ask: signal.Signals, remove: Path | None) -> subprocess.Popen[bytes]:
    command = [sys.executable, __file__, f"--parent={os.getpid()}", f"--server={server}", f"--ask={int(ask)}"]
    if remove is not None:
        command.append(f"--remove={remove}")
    # No stream of ours: whoever waits for the end of our output must not have to wait for the guard as well.
    silent = subprocess.DEVNULL
    return subprocess.Popen(command, stdin=silent, stdout=silent, stderr=silent, start_new_session=True)


def _kill_family(parent: psutil.Process) -> list[psutil.Process]:
    """Send SIGKILL to a process and all its descendants; return these."""
    try:
        parent.suspend()  # frozen it starts no further child between our look and its end
        children = parent.children(recursive=True)
    except psutil.NoSuchProcess:
        return []
    for process in (parent, *children):
        with suppress(psutil.NoSuchProcess):
            process.kill()
    return children


def _wait_until_dead(processes: list[psutil.Process]) -> None:
    deadline = time.monotonic() + _MERCY
    while any(_lives(process) for process in processes) and time.monotonic() < deadline:
        time.sleep(0.005)


def _lives(process: psutil.Process) -> bool:
    # Orphans are reaped by init, in its own time: a zombie holds nothing any more.
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def _watch(parent: int, server: psutil.Process, ask: int) -> bool:
    """Return True once `parent` is gone and the server with it; False if the server ended by itself."""
    while os.getppid() == parent:
        if not _lives(server):
            return False
        time.sleep(_INTERVAL)
    with suppress(psutil.NoSuchProcess):
        server.send_signal(ask)
        server.resume()
    _wait_until_dead([server])
    _wait_until_dead(_kill_family(server))
    return True


def main() -> None:
    """Guard `--server` until `--parent`, which must have started this process, is gone."""
    options = argparse.ArgumentParser()
    options.add_argument("--parent", type=int, required=True)
    options.add_argument("--server", type=int, required=True)
    options.add_argument("--ask", type=int, required=True)
    options.add_argument("--remove", type=Path)
    given = options.parse_args()
    try:
        orphaned = _watch(given.parent, psutil.Process(given.server), given.ask)
    except psutil.NoSuchProcess:
        orphaned = os.getppid() != given.parent
    if orphaned and given.remove is not None:
        shutil.rmtree(given.remove, ignore_errors=True)


if __name__ == "__main__":
    main()
