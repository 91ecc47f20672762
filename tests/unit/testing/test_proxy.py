"""The proxy can close one direction of a connection, and lose one without a word."""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from perdure.testing.proxy import proxied
from tests.deadline import DEADLINE


@asynccontextmanager
async def server() -> AsyncIterator[tuple[int, asyncio.Queue[bytes], asyncio.Event]]:
    """Keeps what it reads (b"" for the end), and when told says "still here" once."""
    read: asyncio.Queue[bytes] = asyncio.Queue()
    speak, hung_up = asyncio.Event(), asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError):
            while data := await reader.read(100):
                read.put_nowait(data)
        read.put_nowait(b"")
        await speak.wait()
        writer.write(b"still here")
        writer.close()
        with suppress(ConnectionError):
            await writer.wait_closed()
        hung_up.set()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as listening:
        yield listening.sockets[0].getsockname()[1], read, speak
        speak.set()
        await hung_up.wait()


async def test_after_a_half_close_the_server_reads_the_end_and_the_client_still_hears_it() -> None:
    async with asyncio.timeout(DEADLINE), server() as (port, read, speak), proxied(port) as proxy:
        reader, writer = await asyncio.open_connection("127.0.0.1", proxy.port)
        writer.write(b"before")
        assert await read.get() == b"before"

        proxy.half_close()
        assert await read.get() == b""
        writer.write(b"after")
        speak.set()

        assert await reader.read(100) == b"still here"
        assert read.empty()
        await hang_up(writer)


async def test_connections_made_after_a_half_close_work() -> None:
    async with asyncio.timeout(DEADLINE), server() as (port, read, _), proxied(port) as proxy:
        proxy.half_close()
        _, writer = await asyncio.open_connection("127.0.0.1", proxy.port)
        writer.write(b"new")
        assert await read.get() == b"new"
        await hang_up(writer)
        assert await read.get() == b""


async def test_one_connection_is_lost_alone_and_its_server_does_not_notice_that_the_client_is_gone() -> None:
    async with asyncio.timeout(DEADLINE), server() as (port, read, _), proxied(port) as proxy:
        writers = []
        for name in (b"lost", b"other"):
            _, writer = await asyncio.open_connection("127.0.0.1", proxy.port)
            writer.write(name)
            assert await read.get() == name
            writers.append(writer)
        lost, other = writers

        proxy.freeze(only=[lost.get_extra_info("sockname")[1]])
        lost.write(b"never")
        await hang_up(lost)
        for number in range(9):
            other.write(b"%d" % number)
            assert await read.get() == b"%d" % number

        await hang_up(other)
        assert await read.get() == b""
        assert read.empty()


async def hang_up(writer: asyncio.StreamWriter) -> None:
    """Close a connection, and see it closed."""
    writer.close()
    with suppress(ConnectionError):
        await writer.wait_closed()


async def test_a_half_close_leaves_a_connection_alone_that_its_server_has_just_reset() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.setblocking(False)
        async with asyncio.timeout(DEADLINE), proxied(listening.getsockname()[1]) as proxy:
            _, writer = await asyncio.open_connection("127.0.0.1", proxy.port)
            writer.write(b"x")
            loop = asyncio.get_running_loop()
            server, _ = await loop.sock_accept(listening)
            server.setblocking(False)
            assert await loop.sock_recv(server, 1) == b"x"
            server.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            server.close()
            proxy.half_close()  # before the proxy has read of the reset
            writer.close()
