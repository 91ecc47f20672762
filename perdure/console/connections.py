"""The console's end of a connection: the server's own refusals carry the headers of every answer, and a connection that
sends no request does not stay."""

from __future__ import annotations

import asyncio
from http import HTTPStatus

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from perdure.console.security import HEADERS

MOST = 500
"""Connections at a time."""
SLOWEST = 20.0
"""Seconds in which the head of a request must have come."""


class Connection(H11Protocol):
    """One connection; see `H11Protocol`."""

    _waits: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """See base class. One connection too many is refused at once."""
        super().connection_made(transport)  # type: ignore[arg-type]
        if len(self.connections) > MOST:
            self._refuse(HTTPStatus.SERVICE_UNAVAILABLE, "Too many connections.")
        else:
            self._wait()

    def data_received(self, data: bytes) -> None:
        """See base class."""
        super().data_received(data)
        if self.conn.their_state is not h11.IDLE:
            self._cancel()

    def on_response_complete(self) -> None:
        """See base class."""
        super().on_response_complete()
        if self.conn.their_state is h11.IDLE:
            self._wait()

    def connection_lost(self, exc: Exception | None) -> None:
        """See base class."""
        self._cancel()
        super().connection_lost(exc)

    def send_400_response(self, msg: str) -> None:
        """See base class."""
        self._refuse(HTTPStatus.BAD_REQUEST, msg)

    def _refuse(self, status: HTTPStatus, why: str) -> None:
        headers = {**HEADERS, "Content-Type": "text/plain; charset=utf-8", "Connection": "close"}
        sent = (
            h11.Response(status_code=status, headers=list(headers.items()), reason=status.phrase.encode()),
            h11.Data(data=why.encode()),
            h11.EndOfMessage(),
        )
        for each in sent:
            self.transport.write(self.conn.send(each) or b"")
        self.transport.close()

    def _wait(self) -> None:
        self._cancel()
        self._waits = self.loop.call_later(SLOWEST, self._close_idle)

    def _cancel(self) -> None:
        if self._waits is not None:
            self._waits.cancel()
            self._waits = None

    def _close_idle(self) -> None:
        if self.conn.their_state is h11.IDLE and not self.transport.is_closing():
            self.transport.close()
