"""One request and its answer (HTTP/1.1), no retry, no redirect, no proxy: how far it came is known at each moment.

A request that has not left leaves nothing behind. One that has, and is not answered in time, is torn down, so that
nothing of it arrives later.
"""

from __future__ import annotations

import asyncio
import errno
import os
import socket
import ssl
import struct
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import aiohttp
from aiohttp.abc import AbstractResolver
from yarl import URL

from activities.http.addresses import Network, allowed
from activities.http.links import next_of
from perdure.telemetry import traces

_LONGEST_LINE = 8190  # bytes of one header or of the status line
_MOST_HEADERS = 100
_MARGIN = 0.3  # seconds: who runs the attempt ends it at its deadline; this is for whoever does not


class Stage(StrEnum):
    """The step that the client was waiting for."""

    CONNECT = "connecting"
    ANSWER = "the answer"
    BODY = "the rest of the answer"


class Broken(Exception):
    """The exchange broke off. `left`: whether a byte of the request may have left; `why`: where it broke."""

    def __init__(self, why: str, *, left: bool) -> None:
        super().__init__(why)
        self.why = why
        self.left = left


class NotAllowed(Exception):
    """The host has no address that may be connected to; nothing was sent."""


class _Forbidden(OSError):
    """This address may not be connected to: the next one of the same host is tried."""


@dataclass(frozen=True, slots=True)
class HttpRequest:
    """A request. The URL is sent unchanged, so it must be percent-encoded where necessary."""

    method: str
    url: str
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes | None = None


@dataclass(frozen=True, slots=True)
class Reply:
    """The answer.

    Attributes:
        headers: of the answer; names in any case.
        body: None where it was not of use (no 2xx, mostly), or longer than may be.
        too_long: it was longer than may be.
        next: where `Link: rel=next` leads (RFC 8288), as the page gives it; perhaps no URL at all.
    """

    status: int
    headers: Mapping[str, str]
    body: bytes | None
    too_long: bool = False
    next: str | None = None


@dataclass(frozen=True, slots=True)
class Bounds:
    """Where requests may go, and how much of an answer is read.

    Attributes:
        networks: that may be connected to beside the public ones.
        most: bytes of an answer.
        ca_file: certificates to trust instead of the system's, PEM.
        of_failures: bodies of other answers than 2xx are read too.
    """

    networks: tuple[Network, ...] = ()
    most: int = 1_000_000
    ca_file: Path | None = None
    of_failures: bool = False


class Exchange:
    """One request and its answer.

    Args:
        names: looks up the host.
        seconds: that it may take, from connecting to the last byte.
        before_first_byte: called at the last moment before the request leaves. Its exceptions pass through, and nothing
            leaves.
        bounds: where it may go, and how much of the answer is read.

    Attributes:
        stage: how far it is.
        left: whether a byte of the request may have left.
    """

    def __init__(
        self,
        request: HttpRequest,
        names: AbstractResolver,
        *,
        bounds: Bounds,
        seconds: float,
        before_first_byte: Callable[[], None] = lambda: None,
    ) -> None:
        self.stage = Stage.CONNECT
        self.left = False
        self._request = request
        self._names = names
        self._seconds = seconds
        self._before_first_byte = before_first_byte
        self._bounds = bounds
        self._stopped: Exception | None = None
        self._not_allowed: str | None = None
        self._tried = False
        self._sockets: list[socket.socket] = []

    async def make(self) -> Reply:
        """Make it.

        Raises:
            NotAllowed: as above.
            Broken: it came to no end.
        """
        try:
            async with asyncio.timeout(self._seconds + _MARGIN), self._session() as session:
                try:
                    return await self._exchanged(session)
                except BaseException:
                    self._hang_up()
                    raise
        except (aiohttp.ClientError, OSError, ValueError) as error:
            if self._stopped is not None:
                raise self._stopped from None
            if self._not_allowed is not None and not self._tried:
                raise NotAllowed(self._not_allowed) from None
            # `from None`: the client's errors quote the URL.
            raise Broken(f"{self.stage}: {_why(error)}", left=self.left) from None

    async def _exchanged(self, session: aiohttp.ClientSession) -> Reply:
        request = self._request
        url = URL(request.url, encoded=True)
        async with session.request(
            request.method, url, data=request.body, headers=request.headers, allow_redirects=False
        ) as response:
            self.stage = Stage.BODY
            body, too_long = await _body(response, self._bounds)
            reply = Reply(
                status=response.status,
                headers=response.headers,
                body=body,
                too_long=too_long,
                next=next_of(response.headers.getall("Link", ())),
            )
        self._part_in_peace()
        return reply

    def _session(self) -> aiohttp.ClientSession:
        connector = aiohttp.TCPConnector(
            resolver=self._names,
            use_dns_cache=False,
            socket_factory=self._socket,
            ssl=_tls(self._bounds.ca_file),
            force_close=True,
        )
        tracing = aiohttp.TraceConfig()
        tracing.on_request_headers_sent.append(self._headers_leave)
        tracing.on_request_chunk_sent.append(self._body_leaves)
        return aiohttp.ClientSession(
            connector=connector,
            trace_configs=[tracing],
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=None),
            cookie_jar=aiohttp.DummyCookieJar(),
            trust_env=False,
            auto_decompress=False,
            max_line_size=_LONGEST_LINE,
            max_field_size=_LONGEST_LINE,
            max_headers=_MOST_HEADERS,
        )

    async def _headers_leave(self, session: aiohttp.ClientSession, about: SimpleNamespace, params: Any) -> None:
        """Send the headers together with the body, if any."""
        if self._request.body is None:
            self._leaves()

    async def _body_leaves(self, session: aiohttp.ClientSession, about: SimpleNamespace, params: Any) -> None:
        self._leaves()

    def _leaves(self) -> None:
        if self.left:
            return
        try:
            self._before_first_byte()
        except Exception as error:
            self._stopped = error
            raise
        self.left, self.stage = True, Stage.ANSWER

    def _socket(self, about: Any) -> socket.socket:
        """A socket for one address of the host, if that may be connected to: the only way to one."""
        if self.left:  # the client makes a GET again, unasked, whose connection was closed without an answer
            raise OSError(errno.ECONNRESET, "closed without an answer")
        family, kind, protocol, _, address = about
        if not allowed(address[0], self._bounds.networks):
            self._not_allowed = str(address[0])
            raise _Forbidden(f"{address[0]} may not be connected to")
        self._tried = True
        made = socket.socket(family=family, type=kind, proto=protocol)
        self._sockets.append(made)
        _linger(made, on=True)
        return made

    def _hang_up(self) -> None:
        """Discard unsent bytes, because nothing may arrive after the attempt's deadline."""
        for each in self._sockets:
            if each.fileno() != -1:
                with suppress(OSError):
                    each.shutdown(socket.SHUT_RDWR)

    def _part_in_peace(self) -> None:
        for each in self._sockets:
            if each.fileno() != -1:
                _linger(each, on=False)


def _linger(connection: socket.socket, *, on: bool) -> None:
    """On: closing the socket resets the connection and discards unsent bytes (socket(7), SO_LINGER of 0 seconds)."""
    with suppress(OSError):
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", int(on), 0))


async def spanned(exchange: Exchange, request: HttpRequest) -> Reply:
    """Make the exchange within a span that shows the address and the progress, and nothing of the job."""
    url = URL(request.url, encoded=True)
    where = {"server.address": url.host or "", "server.port": url.port or 0, "http.request.method": request.method}
    with traces.span("http", where, kind=traces.SpanKind.CLIENT) as span:
        try:
            reply = await exchange.make()
            span.set_attribute("http.response.status_code", reply.status)
            return reply
        finally:
            span.set_attribute("http.stage", exchange.stage.value)


async def _body(response: aiohttp.ClientResponse, bounds: Bounds) -> tuple[bytes | None, bool]:
    """The body, and whether it is too long; only of those that are looked into."""
    if response.status // 100 != 2 and not bounds.of_failures:
        return None, False
    read = bytearray()
    async for piece in response.content.iter_any():
        read += piece
        if len(read) > bounds.most:
            return None, True
    return bytes(read), False


@cache
def _tls_of(ca_file: str | None) -> ssl.SSLContext:
    return ssl.create_default_context(cafile=ca_file)


def _tls(ca_file: Path | None) -> ssl.SSLContext:
    return _tls_of(None if ca_file is None else str(ca_file))


def _why(error: Exception) -> str:
    """The error, without the URL and without text of the other side."""
    match error:
        case TimeoutError():
            return "nothing came in time"
        case aiohttp.ClientConnectorDNSError():
            return "the host's name has no address"
        case aiohttp.ClientConnectorCertificateError():
            reason = getattr(error.certificate_error, "verify_message", "") or "not valid"
            return f"the certificate: {reason}"
        case aiohttp.ClientConnectorSSLError():
            return f"TLS: {getattr(error.os_error, 'reason', None) or 'no handshake'}"
        case aiohttp.ClientPayloadError():
            return "the answer broke off, or is not HTTP"
        case aiohttp.ClientResponseError():
            return "the answer is not HTTP, or its headers are too long"
        case aiohttp.InvalidURL():
            return "the URL can't be called"
        case OSError() if error.errno:
            return os.strerror(error.errno).lower()
        case aiohttp.ClientConnectorError():
            return "no connection"
        case aiohttp.ServerDisconnectedError():
            return "the connection was closed"
        case _:
            return type(error).__name__
