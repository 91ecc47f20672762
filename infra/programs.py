"""Fetches, or builds, the programs that tests run, once for a machine; then runs the command that it is given.

The Temporal server for PostgreSQL, which few tests need and which takes minutes to build, is built beside that command
with what it leaves of the machine. Whoever needs the server waits for it.
"""

from __future__ import annotations

import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from infra.guard import GuardedProcess
from infra.pgbouncer import obtain_pgbouncer
from infra.promtool import obtain_promtool
from infra.temporal_binary import obtain_temporal
from infra.temporal_server_binary import find_temporal_server, obtain_temporal_server

_SERVER = "--temporal-server"


def main() -> int:
    """The exit status of the command. What can't be had, the tests say that need it."""
    if sys.argv[1:] == [_SERVER]:
        obtain_temporal_server()
        return 0
    ways: tuple[Callable[[], object], ...] = (obtain_temporal, obtain_promtool, obtain_pgbouncer)
    for obtain in ways:
        try:
            obtain()
        except (RuntimeError, OSError) as error:
            print(error, file=sys.stderr)
    with _building():
        return subprocess.run(sys.argv[1:]).returncode if sys.argv[1:] else 0


@contextmanager
def _building() -> Iterator[None]:
    """Build the server, if it is not there, for as long as the context lasts."""
    if find_temporal_server() is not None:
        yield
        return
    with tempfile.TemporaryDirectory(prefix="perdure-programs-") as folder:
        command = ["nice", "-n", "19", sys.executable, "-m", "infra.programs", _SERVER]
        build = GuardedProcess(command, ask=signal.SIGTERM, log=Path(folder) / "build.log")
        try:
            yield
        finally:
            with suppress(TimeoutError):
                build.stop()


if __name__ == "__main__":
    sys.exit(main())
