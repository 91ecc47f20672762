"""Notifications to the supervisor of a process, as sd_notify(3) of systemd sends them.

`perdure up` is such a supervisor too: the notifications show it which worker runs.
"""

from __future__ import annotations

import os
import socket
from contextlib import suppress

SOCKET = "NOTIFY_SOCKET"
OF_SUPERVISOR = (SOCKET, "WATCHDOG_USEC", "WATCHDOG_PID")
"""Variables for the process alone, which it does not pass to its child processes."""
READY, WATCHDOG = "READY=1", "WATCHDOG=1"


def notify(*states: str) -> None:
    """Send states to the supervisor. Does nothing if there is none, or it does not listen.

    Args:
        states: assignments, such as `READY` or "STATUS=waits for PostgreSQL".
    """
    address = os.environ.get(SOCKET, "")
    if not address:
        return
    with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as sender:
        sender.setblocking(False)
        # "@" stands for the null byte of an abstract address.
        sender.connect(address.replace("@", "\0", 1) if address.startswith("@") else address)
        sender.send("\n".join(states).encode())


def notify_stopping(patience: float) -> None:
    """Report that the process stops, and ask for the time that it needs: the supervisor may have been given less.

    Args:
        patience: seconds.
    """
    notify("STOPPING=1", f"EXTEND_TIMEOUT_USEC={round(patience * 1_000_000)}")


def watchdog_interval() -> float | None:
    """Seconds between two watchdog notifications, half of the supervisor's limit; None without a watchdog."""
    microseconds, process = os.environ.get("WATCHDOG_USEC", ""), os.environ.get("WATCHDOG_PID", "")
    if not microseconds.isdecimal() or (process and process != str(os.getpid())):
        return None
    return int(microseconds) / 2_000_000
