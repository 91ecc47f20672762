"""`perdure` in a process of its own, forked from one that has imported the libraries: there in a tenth of the time.

A real process with its own memory, connections and signals. What it takes for a bare interpreter to come so far is
the subject of a few tests, which begin with one.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
from collections.abc import Mapping
from pathlib import Path

from perdure.testing.crashing.case import exited
from perdure.testing.crashing.victim import PRELOADED

_FORK = multiprocessing.get_context("forkserver")


class Forked:
    """`perdure` with these arguments, in exactly this environment; what it says goes to the log."""

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


def _be_perdure(arguments: list[str], environment: dict[str, str], log: Path) -> None:
    os.environ.clear()
    os.environ.update(environment)
    said = os.open(log, os.O_CREAT | os.O_WRONLY | os.O_TRUNC)
    os.dup2(said, sys.stdout.fileno())
    os.dup2(said, sys.stderr.fileno())
    sys.argv = ["perdure", *arguments]
    from perdure.cli import main

    main()
