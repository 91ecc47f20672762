"""A TCP proxy between the code and a real server, that can break as networks do: cut, freeze, delay, narrow,
half-close.

`freeze` is the bad one: connections stay open and nothing comes through any more, as when a cable is pulled.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass

_CHUNK = 65_536


class Proxy:
    """Forwards 127.0.0.1:`port` to another port; made by `proxied`.

    Args:
        target_port: of the server.
        host: of the server.

    Attributes:
        port: where it listens.
        accepted: how many connections it took so far.
        forwarded: bytes that went through so far, both ways.
    """

    def __init__(self, target_port: int, host: str = "127.0.0.1") -> None:
        self.port = 0
        self.accepted: int = 0
        self.forwarded: int = 0
        self._target = host, target_port
        self._trap: _Trap | None = None
        self._seconds = 0.0
        self._rate = 0.0
        self._free_at = 0.0
        self._writers: dict[asyncio.StreamWriter, tuple[int, int]] = {}
        """Both ends of each open connection, with the port of its client, and the one that the server sees."""
        self._frozen: set[asyncio.StreamWriter] = set()
        self._far_writers: set[asyncio.StreamWriter] = set()
        self._half_closed: set[asyncio.StreamWriter] = set()
        self._freezes_new = False
        self._tasks: set[asyncio.Task[None]] = set()

    def cut(self) -> None:
        """Reset every connection that is open now; new ones work."""
        for writer in list(self._writers):
            writer.transport.abort()

    def freeze(self, *, new_ones: bool = False, only: Collection[int] | None = None) -> None:
        """Stop forwarding on every connection that is open now, without a word. They stay so when an end is closed.

        Args:
            new_ones: on those to come as well, until `thaw`.
            only: the local ports of the clients whose connections these are, or the ports that the server sees; None =
                all.
        """
        self._frozen |= {each for each, ports in self._writers.items() if only is None or {*ports} & {*only}}
        self._freezes_new = new_ones

    def thaw(self) -> None:
        """New connections work again; what was swallowed stays lost."""
        self._freezes_new = False

    def delay(self, seconds: float) -> None:
        """Hold every piece of data for so long, from now on, in each direction."""
        self._seconds = seconds

    def narrow(self, bytes_per_second: float) -> None:
        """Let no more than that through, from now on, all connections and both directions together; 0 = any amount."""
        self._rate = bytes_per_second

    def half_close(self) -> None:
        """On every connection that is open now, end the client's direction: the server reads the end, the client
        receives nothing of it, and the server's own bytes still come through."""
        for far_writer in list(self._far_writers - self._half_closed):
            if not far_writer.transport.is_closing():
                self._half_closed.add(far_writer)
                with suppress(OSError):  # the server has reset it, which nobody has read yet
                    far_writer.write_eof()

    def lose_request(self, mark: bytes = b"") -> None:
        """Reset the connections when the next request comes: it never arrives.

        Args:
            mark: only a request that contains this.
        """
        self._trap = _Trap(mark, forward=False)

    def lose_reply(self, mark: bytes = b"") -> None:
        """Reset the connections when the reply to the next request comes: the request arrived, and its reply is lost.

        Args:
            mark: only to a request that contains this.
        """
        self._trap = _Trap(mark, forward=True)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One client's connection, both ways, until either side ends it."""
        self.accepted += 1
        try:
            far_reader, far_writer = await asyncio.open_connection(*self._target)
        except OSError:  # the server is down: its client sees the same
            writer.transport.abort()
            return
        pair = {writer, far_writer}
        ports = _port(writer, "peername"), _port(far_writer, "sockname")
        self._writers |= dict.fromkeys(pair, ports)
        self._far_writers.add(far_writer)
        if self._freezes_new:
            self._frozen |= pair
        ways = {
            asyncio.create_task(self._forward(reader, far_writer, asked=far_writer)),
            asyncio.create_task(self._forward(far_reader, writer, replies=far_writer)),
        }
        self._tasks |= ways
        try:
            await asyncio.wait(ways)
        finally:
            self._tasks -= ways
            for each in pair:
                del self._writers[each]
            self._frozen -= pair
            self._far_writers.discard(far_writer)
            self._half_closed.discard(far_writer)
            for each in pair:
                each.transport.abort()

    async def close(self) -> None:
        """End every connection."""
        self.cut()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _forward(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        *,
        asked: asyncio.StreamWriter | None = None,
        replies: asyncio.StreamWriter | None = None,
    ) -> None:
        with suppress(ConnectionError, OSError):
            while data := await reader.read(_CHUNK):
                if self._rate:
                    now = asyncio.get_running_loop().time()
                    self._free_at = max(now, self._free_at) + len(data) / self._rate
                    await asyncio.sleep(self._free_at - now)
                if self._seconds:
                    await asyncio.sleep(self._seconds)
                if self._trap is not None and self._trap.springs(data, asked, replies):
                    self._trap = None
                    self.cut()
                    return
                if writer in self._frozen or writer in self._half_closed:
                    continue  # dropped: neither side is notified
                writer.write(data)
                self.forwarded += len(data)
                await writer.drain()
        if writer not in self._frozen:
            writer.transport.abort()


def _port(writer: asyncio.StreamWriter, end: str) -> int:
    address = writer.get_extra_info(end)
    return address[1] if address else 0  # the connection is over


@dataclass(slots=True)
class _Trap:
    """Waits for one request, or for the reply to it."""

    mark: bytes
    forward: bool
    request_to: asyncio.StreamWriter | None = None

    def springs(self, data: bytes, asked: asyncio.StreamWriter | None, replies: asyncio.StreamWriter | None) -> bool:
        if asked is not None and self.request_to is None and self.mark in data:
            self.request_to = asked
            return not self.forward
        return self.request_to is not None and replies is self.request_to


@asynccontextmanager
async def proxied(target_port: int, host: str = "127.0.0.1") -> AsyncIterator[Proxy]:
    """A proxy on 127.0.0.1 to a server, for as long as the context lasts."""
    proxy = Proxy(target_port, host)
    server = await asyncio.start_server(proxy.serve, "127.0.0.1", 0)
    proxy.port = server.sockets[0].getsockname()[1]
    try:
        yield proxy
    finally:
        server.close()
        await proxy.close()
