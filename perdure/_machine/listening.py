"""Who listens on the port of Temporal: nobody, a process of ours, or another program, as the server of another folder.

Read from the tables of sockets and of open files of Linux: proc_pid_net(5), proc_pid_fd(5).
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable
from pathlib import Path

from perdure.errors import NotNow
from perdure.servers.ports import is_free

_LOOK_EVERY = 0.1
_LISTENS = "0A"


async def until_free(port: int, report: Callable[[str], None], patience: float) -> None:
    """Wait until nobody listens on the port. The Temporal of a `perdure up` that was killed needs a moment to stop.

    Args:
        port: on 127.0.0.1.
        report: is given the reason, if it has to wait.
        patience: seconds.

    Raises:
        NotNow: another program listens there.
    """
    began = time.monotonic()
    if not is_free(port):
        report(f"waits for port {port}, on which another program listens")
    while not is_free(port):
        if time.monotonic() - began > patience:
            raise NotNow(
                f"another program listens on port {port} of 127.0.0.1, which Temporal has here: stop that program, or "
                "name another port by --port"
            )
        await asyncio.sleep(_LOOK_EVERY)


async def until_listening(pid: Callable[[], int | None], port: int) -> None:
    """Wait until the process, or another one of its session, listens on the port.

    Args:
        pid: gives the process, which leads a session; None while none runs.
        port: on 127.0.0.1.
    """
    while True:
        if (leader := pid()) is not None and listens(leader, port):
            return
        await asyncio.sleep(_LOOK_EVERY)


def listens(leader: int, port: int) -> bool:
    """Whether a process of a session listens on a port of IPv4."""
    rows = (row.split() for row in Path("/proc/net/tcp").read_text().splitlines()[1:])
    inodes = {row[9] for row in rows if row[3] == _LISTENS and int(row[1].rpartition(":")[2], 16) == port}
    sockets = {f"socket:[{inode}]" for inode in inodes}
    return bool(sockets) and any(_has_open(pid, sockets) for pid in _session(leader))


def _session(leader: int) -> list[int]:
    pids = (int(each.name) for each in Path("/proc").iterdir() if each.name.isdigit())
    return [pid for pid in pids if _session_of(pid) == leader]


def _session_of(pid: int) -> int | None:
    try:
        return os.getsid(pid)
    except OSError:  # it has ended
        return None


def _has_open(pid: int, files: set[str]) -> bool:
    try:
        return any(str(each.readlink()) in files for each in Path(f"/proc/{pid}/fd").iterdir())
    except OSError:  # it, or one of its files, is gone
        return False
