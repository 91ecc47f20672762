"""A TCP proxy between the code and a real server, that can break as networks do: cut, freeze, delay.

`freeze` is the bad one: connections stay open and nothing comes through any more, as when a cable is pulled.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

_CHUNK = 65_536


class Proxy:
    """Forwards 127.0.0.1:`port` to another port; made by `proxied`.

    Attributes:
        port: where it listens.
        accepted: how many connections it took so far.
        forwarded: bytes that went through so far, both ways.
    """

    def __init__(self, target_port: int) -> None:
        self.port = 0
        self.accepted = 0
        self.forwarded = 0
        self._target_port = target_port
        self._seconds = 0.0
        self._writers: set[asyncio.StreamWriter] = set()
        self._frozen: set[asyncio.StreamWriter] = set()
        self._freezes_new = False
        self._tasks: set[asyncio.Task[None]] = set()

    def cut(self) -> None:
        """Reset every connection that is open now; new ones work."""
        for writer in list(self._writers):
            writer.transport.abort()

    def freeze(self, *, new_ones: bool = False) -> None:
        """Stop forwarding on every connection that is open now, without a word.

        Args:
            new_ones: on those to come as well, until `thaw`.
        """
        self._frozen = set(self._writers)
        self._freezes_new = new_ones

    def thaw(self) -> None:
        """New connections work again; what was swallowed stays lost."""
        self._freezes_new = False

    def delay(self, seconds: float) -> None:
        """Hold every piece of data for so long, from now on, in each direction."""
        self._seconds = seconds

    @property
    def open_connections(self) -> int:
        """How many clients are connected now, frozen ones included."""
        return len(self._writers) // 2

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One client's connection, both ways, until either side ends it."""
        self.accepted += 1
        try:
            far_reader, far_writer = await asyncio.open_connection("127.0.0.1", self._target_port)
        except OSError:  # the server is down: its client sees the same
            writer.transport.abort()
            return
        pair = {writer, far_writer}
        self._writers |= pair
        if self._freezes_new:
            self._frozen |= pair
        ways = {
            asyncio.create_task(self._forward(reader, far_writer)),
            asyncio.create_task(self._forward(far_reader, writer)),
        }
        self._tasks |= ways
        try:
            await asyncio.wait(ways)
        finally:
            self._tasks -= ways
            self._writers -= pair
            self._frozen -= pair
            for each in pair:
                each.transport.abort()

    async def close(self) -> None:
        """End every connection."""
        self.cut()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _forward(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError, OSError):
            while data := await reader.read(_CHUNK):
                if self._seconds:
                    await asyncio.sleep(self._seconds)
                if writer in self._frozen:
                    continue  # swallowed: neither side hears of it
                writer.write(data)
                self.forwarded += len(data)
                await writer.drain()
        if writer not in self._frozen:
            writer.transport.abort()


@asynccontextmanager
async def proxied(target_port: int) -> AsyncIterator[Proxy]:
    """A proxy to a port on 127.0.0.1, for as long as the context lasts."""
    proxy = Proxy(target_port)
    server = await asyncio.start_server(proxy.serve, "127.0.0.1", 0)
    proxy.port = server.sockets[0].getsockname()[1]
    try:
        yield proxy
    finally:
        server.close()
        await proxy.close()
