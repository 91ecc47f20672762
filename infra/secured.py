"""PostgreSQL and Temporal as servers that let in nobody without TLS and a client certificate.

A proxy ends TLS before them: the PostgreSQL that runs here is built without it, and Temporal's dev server has none.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from urllib.parse import urlencode, urlsplit, urlunsplit

from infra.certificates import Authority, Issued

SSL_REQUEST = (8).to_bytes(4) + (80877103).to_bytes(4)
"""PostgreSQL's protocol, 54.2.10: what comes before TLS begins."""


class Files:
    """The three files of a client.

    Args:
        folder: where they are.
    """

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self.ca, self.cert, self.key = folder / "ca.pem", folder / "client.pem", folder / "client.key"

    def write(self, server: Authority, client: Issued) -> None:
        """Put new ones in place."""
        self.ca.write_bytes(server.cert)
        client.write(self.cert, self.key)

    def url(self, dsn: str, port: int) -> str:
        """The URL of a database by way of that port, with TLS that checks the server's name."""
        parts = urlsplit(dsn)
        query = {"sslmode": "verify-full", "sslrootcert": self.ca, "sslcert": self.cert, "sslkey": self.key}
        return urlunsplit(parts._replace(netloc=f"{parts.username}@127.0.0.1:{port}", query=urlencode(query)))

    def temporal(self) -> dict[str, str]:
        """The settings of Temporal's client."""
        return {
            "TEMPORAL_TLS_SERVER_CA_CERT_PATH": str(self.ca),
            "TEMPORAL_TLS_CLIENT_CERT_PATH": str(self.cert),
            "TEMPORAL_TLS_CLIENT_KEY_PATH": str(self.key),
        }


class TlsProxy:
    """Ends TLS before a server that has none, and notes the serial numbers of the clients' certificates.

    Attributes:
        port: where it listens.
        serials: of each connection so far.
    """

    def __init__(self, target: str, context: ssl.SSLContext, *, postgres: bool) -> None:
        self._postgres = postgres
        self.port = 0
        self.serials: list[int] = []
        self.context = context
        self._host, _, port = target.partition(":")
        self._target_port = int(port)
        self._server: asyncio.Server
        self._serving: set[asyncio.Task[None]] = set()

    async def change(self, context: ssl.SSLContext) -> None:
        """From now on by `context`; connections that are open are cut."""
        await self.close()
        self.context = context
        await self.listen()

    async def listen(self) -> None:
        """Begin."""
        context = None if self._postgres else self.context
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self.port, ssl=context)
        self.port = self._server.sockets[0].getsockname()[1]

    async def close(self) -> None:
        """End it, and what is open."""
        self._server.close()
        serving = list(self._serving)
        for task in serving:
            task.cancel()
        await asyncio.gather(*serving, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._serving.add(task)
        task.add_done_callback(self._serving.discard)
        with suppress(asyncio.CancelledError):  # asyncio logs an error where the task of a connection is cancelled
            await self._relay(reader, writer)

    async def _relay(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        async with _open(writer):
            if self._postgres:
                assert await reader.readexactly(len(SSL_REQUEST)) == SSL_REQUEST
                writer.write(b"S")
                await writer.start_tls(self.context)
            shown = writer.get_extra_info("peercert")
            self.serials.append(int(shown["serialNumber"], 16))
            far_reader, far_writer = await asyncio.open_connection(self._host, self._target_port)
            async with _open(far_writer):
                await asyncio.gather(_pump(reader, far_writer), _pump(far_reader, writer))


@asynccontextmanager
async def _open(writer: asyncio.StreamWriter) -> AsyncIterator[None]:
    """Close it at the end, also where the other side ends the connection before anything is read."""
    try:
        with suppress(OSError, asyncio.IncompleteReadError):
            yield
    except asyncio.CancelledError:
        writer.transport.abort()
        raise
    finally:
        writer.close()


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while data := await reader.read(65_536):
            writer.write(data)
            await writer.drain()
    writer.close()


@asynccontextmanager
async def behind_tls(target: str, context: ssl.SSLContext, *, postgres: bool = False) -> AsyncIterator[TlsProxy]:
    """A proxy before `target`, `host:port`, for as long as the context lasts.

    Args:
        postgres: TLS begins as PostgreSQL's protocol has it.
    """
    proxy = TlsProxy(target, context, postgres=postgres)
    await proxy.listen()
    try:
        yield proxy
    finally:
        await proxy.close()
