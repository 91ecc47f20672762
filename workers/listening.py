"""A small, bounded HTTP server for callbacks. It answers with a status and a constant sentence.

It logs no part of a request, because path, headers and body may hold secrets.
"""

from __future__ import annotations

import asyncio
import logging
import signal
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import ClassVar

from aiohttp import web

from perdure.database import Connection, Pool, open_pool
from perdure.logs import log_event
from perdure.settings import Settings

LONGEST = 20.0
"""Longest life of a connection in seconds: headers, body and answer."""
MOST_CONNECTIONS = 500
_GRACE = 5.0

_quiet = logging.Logger("perdure.listening.http", logging.CRITICAL + 1)
"""The logger of aiohttp's server, which is off: its lines about unreadable requests may contain a token."""


class Listener(ABC):
    """The server.

    Args:
        longest: longest life of a connection, in seconds.
        most: limit of connections at a time. Further ones are closed at once.

    Attributes:
        log: the logger of answers. A line contains the status only.
        answers: the sentence of each status.
    """

    log: ClassVar[logging.Logger]
    answers: ClassVar[Mapping[int, str]]

    def __init__(self, *, longest: float = LONGEST, most: int = MOST_CONNECTIONS) -> None:
        self._longest = longest
        self._most = most

    @abstractmethod
    async def handle(self, request: web.BaseRequest) -> int:
        """Process a request. Returns the status of the answer."""

    @asynccontextmanager
    async def listening(self, host: str, port: int) -> AsyncIterator[int]:
        """Listen while the context lasts, and let the requests under way end. Yields the port."""
        loop = asyncio.get_running_loop()
        requests = web.Server(
            self._answer, access_log=None, logger=_quiet, lingering_time=2, max_headers=64, auto_decompress=False
        )

        def connection() -> web.RequestHandler:
            one = requests()
            over = len(requests.connections) >= self._most
            loop.call_later(0 if over else self._longest, one.force_close)
            return one

        server = await loop.create_server(connection, host, port, reuse_address=True)
        try:
            yield server.sockets[0].getsockname()[1]
        finally:
            server.close()
            requests.pre_shutdown()
            await requests.shutdown(_GRACE)
            await server.wait_closed()

    async def _answer(self, request: web.BaseRequest) -> web.Response:
        try:
            async with asyncio.timeout(self._longest / 2):
                status = await self.handle(request)
        except TimeoutError:
            status = 408
        log_event(self.log, "called back", status=status)
        answer = web.Response(status=status, text=self.answers[status] or None)
        if status == 405:
            answer.headers["Allow"] = "POST"
        if status == 503:
            answer.headers["Retry-After"] = "5"
        answer.headers["Cache-Control"] = "no-store"
        answer.force_close()
        return answer


async def until_stopped(listener: Listener, host: str, port: int) -> None:
    """Listen until SIGTERM or SIGINT."""
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    async with listener.listening(host, port) as at:
        log_event(listener.log, "listening", address=f"{host}:{at}")
        await stop.wait()
        log_event(listener.log, "stopping")


def pool_of(config: Settings, name: str, patience: float) -> AbstractAsyncContextManager[Pool]:
    """Connections to the app's database with short time-outs.

    Args:
        name: the `application_name` of the connections.
        patience: time-out of a statement, in seconds.
    """
    return open_pool(config, name, command_timeout=patience, init=_patient)


async def _patient(connection: Connection) -> None:
    await connection.execute("set lock_timeout = '3s'")


async def body_of(request: web.BaseRequest, most: int) -> bytes | None:
    """The body; None if it has more than `most` bytes. Reads no more than that."""
    if (request.content_length or 0) > most:
        return None
    text = bytearray()
    async for chunk in request.content.iter_any():
        text += chunk
        if len(text) > most:
            return None
    return bytes(text)
