"""`perdure` in a process of its own, forked from one that has imported the libraries: there in a tenth of the time.

A real process with its own memory, connections and signals. What it takes for a bare interpreter to come so far is
the subject of a few tests, which begin with one.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import threading
import traceback
from collections.abc import Mapping, Sequence
from pathlib import Path

from perdure.testing.crashing.case import exited
from perdure.testing.crashing.victim import PRELOADED

_FORK = multiprocessing.get_context("forkserver")
_AT_ONCE = 8


class Forked:
    """`perdure` with these arguments, in exactly this environment; its output goes to the log."""

    def __init__(self, arguments: list[str], environment: Mapping[str, str], log: Path) -> None:
        _FORK.set_forkserver_preload([*PRELOADED, "perdure.cli"])
        self._process = _FORK.Process(target=_be_perdure, args=(arguments, dict(environment), log), daemon=True)
        self._process.start()

    @property
    def pid(self) -> int:
        """Its process id."""
        assert self._process.pid is not None
        return self._process.pid

    @property
    def returncode(self) -> int | None:
        """How it ended, as `subprocess` has it; None while it runs."""
        return self._process.exitcode

    def send_signal(self, number: signal.Signals) -> None:
        """Send it a signal; nothing where it has ended."""
        if self.returncode is None:
            os.kill(self.pid, number)

    async def wait(self) -> int:
        """Wait until it has ended; returns its exit status."""
        return await exited(self._process)


async def run_each(commands: Sequence[Sequence[str]], environment: Mapping[str, str], logs: Sequence[Path]) -> None:
    """Run `perdure` with each of these arguments, each in a process of its own, and wait until all have ended.

    They are forked from one process that has imported what they share, and run in the folder of the logs. A database
    that does not answer, and a worker that takes nothing, are given up after a moment.
    """
    _FORK.set_forkserver_preload([*PRELOADED, "perdure.cli"])
    process = _FORK.Process(target=_run_each, args=([list(each) for each in commands], dict(environment), list(logs)))
    process.start()
    assert await exited(process) == 0


def _run_each(commands: list[list[str]], environment: dict[str, str], logs: list[Path]) -> None:
    from perdure._reconcile.asking import reconcile
    from perdure._store.postgres import Database

    for patient in (Database.open, reconcile):
        assert patient.__kwdefaults__ is not None
        patient.__kwdefaults__["patience"] = 0.5
    os.chdir(logs[0].parent)
    running = 0
    for arguments, log in zip(commands, logs, strict=True):
        if running == _AT_ONCE:
            os.wait()
            running -= 1
        if os.fork() == 0:
            try:
                _be_perdure(arguments, environment, log)
            except BaseException:
                traceback.print_exc()  # as the interpreter would
            finally:
                sys.stderr.flush()
                os._exit(1)
        running += 1
    for _ in range(running):
        os.wait()


def _be_perdure(arguments: list[str], environment: dict[str, str], log: Path) -> None:
    threading.Thread(target=_end_with_the_tests, daemon=True).start()
    os.environ.clear()
    os.environ.update(environment)
    output = os.open(log, os.O_CREAT | os.O_WRONLY | os.O_TRUNC)
    os.dup2(output, sys.stdout.fileno())
    os.dup2(output, sys.stderr.fileno())
    sys.argv = ["perdure", *arguments]
    from perdure.cli import main
    from tests.patience import be_patient

    be_patient()
    main()


def _end_with_the_tests() -> None:
    """A pytest that is killed would leave it behind, and with it the process from which it is forked."""
    tests = multiprocessing.parent_process()
    assert tests is not None
    tests.join()
    os.kill(os.getpid(), signal.SIGKILL)
