"""A page that breaks the rules: a TCP server that treats each connection as a test orders, and keeps the requests."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress

Behaviour = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


class RawPage:
    """Attributes:
    port: where it listens on 127.0.0.1.
    connections: how many came.
    got: the first bytes of each request, up to the end of its headers.
    """

    def __init__(self, behaviour: Behaviour, *, reads: bool = True) -> None:
        self.port = 0
        self.connections = 0
        self.got: list[bytes] = []
        self.came = asyncio.Event()
        self._behaviour = behaviour
        self._reads = reads

    @property
    def origin(self) -> str:
        """`http://127.0.0.1:port`."""
        return f"http://127.0.0.1:{self.port}"

    @asynccontextmanager
    async def serving(self, tls: ssl.SSLContext | None = None) -> AsyncIterator[RawPage]:
        """Listen for as long as the context lasts."""
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0, ssl=tls)
        self.port = server.sockets[0].getsockname()[1]
        running = self._running = set[asyncio.Task[None]]()
        try:
            yield self
        finally:
            server.close()
            for task in running:
                task.cancel()
            await asyncio.gather(*running, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._running.add(task)
        self.connections += 1
        try:
            if self._reads:
                self.got.append(await reader.readuntil(b"\r\n\r\n"))
            self.came.set()
            with suppress(ConnectionError):
                await self._behaviour(reader, writer)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            self._running.discard(task)
            writer.transport.abort()


def says(*pieces: bytes, every: float = 0.0) -> Behaviour:
    """Writes these bytes, with pauses of `every` seconds, and closes."""

    async def behaviour(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for piece in pieces:
            writer.write(piece)
            await writer.drain()
            await asyncio.sleep(every)
        writer.close()

    return behaviour


def says_for_ever(head: bytes, piece: bytes, every: float = 0.0) -> Behaviour:
    """Writes `head`, then `piece` again and again."""

    async def behaviour(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(head)
        while True:
            writer.write(piece)
            await writer.drain()
            await asyncio.sleep(every)

    return behaviour


async def silent(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Never answers."""
    await asyncio.Event().wait()
