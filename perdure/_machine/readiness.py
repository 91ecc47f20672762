"""When a worker has become ready: it notifies its supervisor as it would notify systemd."""

from __future__ import annotations

import asyncio
import shutil
import socket
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from perdure._worker.notifying import READY


class Readiness:
    """A socket on which one process notifies.

    Attributes:
        address: the value of `NOTIFY_SOCKET` for the process.
    """

    def __init__(self, folder: Path, name: str) -> None:
        self.address = str(folder / name)
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC | socket.SOCK_NONBLOCK)
        self._socket.bind(self.address)

    async def until_ready(self) -> None:
        """Wait until the process notifies that it is ready."""
        self._empty()
        while READY not in (await asyncio.get_running_loop().sock_recv(self._socket, 4096)).decode().splitlines():
            pass

    def close(self) -> None:
        """Close the socket."""
        self._socket.close()

    def _empty(self) -> None:
        """Forget what a predecessor has sent."""
        while True:
            try:
                self._socket.recv(4096)
            except BlockingIOError:
                return


@contextmanager
def sockets(number: int) -> Iterator[list[Readiness]]:
    """So many sockets, in a folder that only this user can enter, with a path that is short enough."""
    folder = Path(tempfile.mkdtemp(prefix="perdure-up-", dir="/tmp" if len(tempfile.gettempdir()) > 60 else None))
    made = [Readiness(folder, str(index)) for index in range(number)]
    try:
        yield made
    finally:
        for each in made:
            each.close()
        shutil.rmtree(folder, ignore_errors=True)
