"""Receives what pages say by their callbacks: `POST /<token>`, put on record and sent to the job in one transaction.

It answers everybody with the same few constant sentences, and logs no token. A connection lives 20 seconds at most.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import asyncpg
from aiohttp import web
from pydantic import ValidationError
from pydantic_core import from_json

from activities.contracts.web_job import CalledBack
from perdure.fleet.worker import told_to_stop
from perdure.logs import says
from perdure.schema import Connection
from perdure.settings import Settings

MOST = 64 * 1024
"""Bytes that a page may say."""
LONGEST = 20.0
"""Seconds that a connection lives: headers, body and answer."""
MOST_CONNECTIONS = 500
_LONGEST_TOKEN = 200
_GRACE = 5.0
_PATIENCE = 5.0

log = logging.getLogger("perdure.callbacks")
_quiet = logging.Logger("perdure.callbacks.http", logging.CRITICAL + 1)
"""The server's own: what it would log of a request that it can't read may hold a token."""

_ANSWERS = {
    204: "",
    400: 'the body has to be JSON of at most 64 kB such as {"ok": true, "body": {}, "why": "..."}, or empty',
    404: "no such token",
    405: "POST it",
    410: "nothing is waited for: the job has ended, or something else was said before",
    413: "at most 64 kB: keep it where you have it, and say where",
    408: "that took too long",
    503: "not now: say it again",
}
_HEARD = {"heard": 204, "used": 410, "over": 410, "unknown": 404}


class Receiver:
    """The server.

    Args:
        pool: connections to the app's database; their role may execute `web_job.called_back`.
        longest: seconds that a connection lives.
        most: connections at a time; one more is closed at once.
    """

    def __init__(
        self, pool: asyncpg.Pool[asyncpg.Record], *, longest: float = LONGEST, most: int = MOST_CONNECTIONS
    ) -> None:
        self._pool = pool
        self._longest = longest
        self._most = most

    @asynccontextmanager
    async def listening(self, host: str, port: int) -> AsyncIterator[int]:
        """Listen for as long as the context lasts; those under way end well. Yields the port."""
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
                status = await self._hear(request)
        except TimeoutError:
            status = 408
        says(log, "called back", status=status)
        answer = web.Response(status=status, text=_ANSWERS[status] or None)
        if status == 405:
            answer.headers["Allow"] = "POST"
        if status == 503:
            answer.headers["Retry-After"] = "5"
        answer.headers["Cache-Control"] = "no-store"
        answer.force_close()
        return answer

    async def _hear(self, request: web.BaseRequest) -> int:
        """Put it on record, and say how that went, as the status of an answer."""
        if request.method != "POST":
            return 405
        # Whatever stands before it is a proxy's business.
        token = request.path.rpartition("/")[2]
        if not 1 <= len(token) <= _LONGEST_TOKEN or not token.isascii() or not token.isalnum():
            return 404
        text = await _read(request)
        if text is None:
            return 413
        try:
            said = CalledBack.model_validate(_json(text))
            return await self._put_on_record(token, said)
        except (ValueError, ValidationError, RecursionError, asyncpg.DataError):
            return 400

    async def _put_on_record(self, token: str, said: CalledBack) -> int:
        body = None if said.body is None else json.dumps(said.body)
        try:
            async with asyncio.timeout(_PATIENCE), self._pool.acquire() as connection:
                heard = await connection.fetchval(
                    "select web_job.called_back($1, $2, $3, $4)", token, said.ok, body, said.why
                )
        except asyncpg.InvalidParameterValueError:  # as PostgreSQL writes it, it is longer
            return 413
        except asyncpg.DataError:
            raise
        except (asyncpg.PostgresError, asyncpg.InterfaceError, OSError, TimeoutError) as error:
            says(log, "not put on record", why=type(error).__name__)
            return 503
        return _HEARD[str(heard)]


async def receive(config: Settings, host: str, port: int) -> None:
    """Run the receiver until SIGTERM or SIGINT."""
    stop = told_to_stop()
    async with (
        asyncpg.create_pool(
            config.database_url,
            min_size=0,
            max_size=config.connections,
            command_timeout=_PATIENCE,
            statement_cache_size=0,  # for PgBouncer
            init=_patient,
            server_settings={"application_name": "perdure callbacks"},
        ) as pool,
        Receiver(pool).listening(host, port) as at,
    ):
        says(log, "listening", address=f"{host}:{at}")
        await stop
        says(log, "stopping")


async def _patient(connection: Connection) -> None:
    await connection.execute("set lock_timeout = '3s'")


async def _read(request: web.BaseRequest) -> bytes | None:
    """The body; None if it is too long. No more than that is read."""
    if (request.content_length or 0) > MOST:
        return None
    text = bytearray()
    async for chunk in request.content.iter_any():
        text += chunk
        if len(text) > MOST:
            return None
    return bytes(text)


def _json(text: bytes) -> Any:
    return from_json(text) if text.strip() else {}
