"""Receives the callbacks of pages, `POST /<token>`: records them and sends them to the job in one transaction.

Its answers are constant sentences, and it logs no token. A connection lives 20 seconds at most.
"""

from __future__ import annotations

import asyncio
import json
import logging
from typing import Any

import asyncpg
from aiohttp import web
from pydantic import ValidationError
from pydantic_core import from_json

from activities.web_jobs.contracts import CalledBack
from perdure.logs import log_event
from perdure.settings import Settings
from workers.listening import LONGEST, MOST_CONNECTIONS, Listener, body_of, pool_of, until_stopped

MOST = 64 * 1024
"""Limit of a callback, in bytes."""
_LONGEST_TOKEN = 200
_PATIENCE = 5.0
_UNUSABLE = (asyncpg.DataError, asyncpg.ProgramLimitExceededError)
"""Errors that come again with the same body: it has what PostgreSQL can't store, or is nested too deep for Temporal."""

log = logging.getLogger("perdure.callbacks")

_ANSWERS = {
    204: "",
    400: 'the body has to be JSON of at most 64 kB such as {"ok": true, "body": {}, "why": "..."}, or empty',
    404: "no such token",
    405: "POST it",
    410: "nothing is waited for: the job has ended, or the page has sent another report before",
    413: "at most 64 kB: keep it where you have it, and say where",
    408: "that took too long",
    503: "not now: say it again",
}
_STATUSES = {"accepted": 204, "used": 410, "over": 410, "unknown": 404}


class Receiver(Listener):
    """The server.

    Args:
        pool: connections to the app's database; their role may execute `web_job.called_back`.
        longest: longest life of a connection, in seconds.
        most: limit of connections at a time. Further ones are closed at once.
    """

    log = log
    answers = _ANSWERS

    def __init__(
        self, pool: asyncpg.Pool[asyncpg.Record], *, longest: float = LONGEST, most: int = MOST_CONNECTIONS
    ) -> None:
        super().__init__(longest=longest, most=most)
        self._pool = pool

    async def handle(self, request: web.BaseRequest) -> int:
        """Record the callback. Returns the status of the answer."""
        if request.method != "POST":
            return 405
        # A proxy may add a path before the token.
        token = request.path.rpartition("/")[2]
        if not 1 <= len(token) <= _LONGEST_TOKEN or not token.isascii() or not token.isalnum():
            return 404
        text = await body_of(request, MOST)
        if text is None:
            return 413
        try:
            report = CalledBack.model_validate(_json(text))
            return await self._put_on_record(token, report)
        except (ValueError, ValidationError, RecursionError, *_UNUSABLE):
            return 400

    async def _put_on_record(self, token: str, report: CalledBack) -> int:
        body = None if report.body is None else json.dumps(report.body)
        try:
            async with asyncio.timeout(_PATIENCE), self._pool.acquire() as connection:
                result = await connection.fetchval(
                    "select web_job.called_back($1, $2, $3, $4)", token, report.ok, body, report.why
                )
        except asyncpg.InvalidParameterValueError:  # longer as PostgreSQL writes it
            return 413
        except _UNUSABLE:
            raise
        except (asyncpg.PostgresError, asyncpg.InterfaceError, OSError, TimeoutError) as error:
            log_event(log, "not put on record", why=type(error).__name__)
            return 503
        return _STATUSES[str(result)]


async def receive(config: Settings, host: str, port: int) -> None:
    """Run the receiver until SIGTERM or SIGINT."""
    async with pool_of(config, "perdure callbacks", _PATIENCE) as pool:
        await until_stopped(Receiver(pool), host, port)


def _json(text: bytes) -> Any:
    return from_json(text) if text.strip() else {}
