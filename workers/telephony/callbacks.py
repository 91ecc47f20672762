"""Receives the provider's status callbacks, checks their signatures, and sends them to the lifecycles as messages.

Callbacks may be repeated, late or out of order: a lifecycle receives each status of each message once. No part of a
request is logged, because it contains the telephone number.
"""

from __future__ import annotations

import asyncio
import logging
from urllib.parse import parse_qs, urlsplit

import asyncpg
from aiohttp import web
from pydantic import ValidationError

from activities.secrets import NoSecret
from activities.telephony.contracts import Channel, Reported
from activities.telephony.settings import TelephonySettings, telephony_settings
from activities.telephony.twilio.credentials import auth_tokens, readable_auth_tokens
from activities.telephony.twilio.request import RETRIES
from activities.telephony.twilio.signature import form_of, is_genuine
from perdure.errors import InvalidSetting
from perdure.logs import log_event
from perdure.settings import Settings
from workers.listening import LONGEST, MOST_CONNECTIONS, Listener, body_of, pool_of, until_stopped

MOST = 64 * 1024
"""Limit of a callback, in bytes."""
SIGNAL = "reported"
"""Name of the signal to the lifecycle. Its handler takes a `Reported`."""
_PATIENCE = 5.0

log = logging.getLogger("perdure.telephony")

_ANSWERS = {
    204: "",
    400: "that is no status callback",
    403: "no",
    404: "nothing is known of it",
    405: "POST it",
    408: "that took too long",
    413: "at most 64 kB",
    503: "not now: say it again",
}


class StatusCallbacks(Listener):
    """The server.

    Args:
        pool: connections to the app's database; their role may execute `perdure.signal`.
        config: the public URL, and the tokens that sign.
        longest: longest life of a connection, in seconds.
        most: limit of connections at a time. Further ones are closed at once.
    """

    log = log
    answers = _ANSWERS

    def __init__(
        self,
        pool: asyncpg.Pool[asyncpg.Record],
        config: TelephonySettings,
        *,
        longest: float = LONGEST,
        most: int = MOST_CONNECTIONS,
    ) -> None:
        super().__init__(longest=longest, most=most)
        self._pool = pool
        self._config = config

    async def handle(self, request: web.BaseRequest) -> int:
        """Check the callback, and commit it as a message."""
        if request.method != "POST":
            return 405
        body = await body_of(request, MOST)
        if body is None:
            return 413
        query = urlsplit(request.raw_path).query
        refusal = self._refusal(query, body, request.headers.get("X-Twilio-Signature", ""))
        if refusal is not None:
            return refusal
        try:
            lifecycle, id, reported = _read(query, body)
        except (ValueError, ValidationError):
            return 400
        return await self._send_signal(lifecycle, id, reported)

    def _refusal(self, query: str, body: bytes, given: str) -> int | None:
        """The answer, unless the provider has signed the callback for the public URL: a proxy may have changed host and
        path. While a token can't be read, it may be the one that has signed, and the provider repeats after 503."""
        url = f"{self._config.callback_url}?{query}"
        tokens, missing = readable_auth_tokens(self._config)
        try:
            if is_genuine(tokens, url, body, given) or is_genuine(tokens, url + RETRIES, body, given):
                return None
        except ValueError:
            return 403
        if missing is None:
            return 403
        log_event(log, "can't check a signature", why=str(missing))
        return 503

    async def _send_signal(self, lifecycle: str, id: str, reported: Reported) -> int:
        message = f"{reported.sid}/{reported.status}"
        try:
            async with asyncio.timeout(_PATIENCE), self._pool.acquire() as connection:
                await connection.execute(
                    "select perdure.signal($1, $2, $3, $4::jsonb, $5)",
                    *(lifecycle, id, SIGNAL, reported.model_dump_json(), message),
                )
        except (asyncpg.NoDataFoundError, asyncpg.InvalidParameterValueError):
            return 404  # an entity of another database, or a deleted one: a repeat would not help
        except (asyncpg.PostgresError, asyncpg.InterfaceError, OSError, TimeoutError) as error:
            log_event(log, "not put on record", why=type(error).__name__)
            return 503
        return 204


def _read(query: str, body: bytes) -> tuple[str, str, Reported]:
    """The lifecycle, the entity's id and the report of a callback.

    Raises:
        ValueError: the request is no status callback.
    """
    of, form = parse_qs(query, strict_parsing=True), dict(form_of(body))
    call = "CallSid" in form
    sid = form.get("CallSid") if call else form.get("MessageSid") or form.get("SmsSid")
    status = form.get("CallStatus") if call else form.get("MessageStatus") or form.get("SmsStatus")
    code = form.get("ErrorCode") or None
    if not sid or not status or not {"of", "id", "ref"} <= of.keys():
        raise ValueError("no status callback")
    reported = Reported(
        sid=sid,
        channel=Channel.CALL if call else Channel.SMS,
        status=status,
        code=None if code is None else int(code),
        reference=of["ref"][0],
    )
    return of["of"][0], of["id"][0], reported


async def receive(config: Settings, host: str, port: int) -> None:
    """Run the receiver until SIGTERM or SIGINT.

    Raises:
        InvalidSetting: the public URL or the tokens for the check of signatures are missing.
    """
    telephony = telephony_settings()
    if telephony.callback_url is None:
        raise InvalidSetting("PERDURE_TELEPHONY_CALLBACK_URL is not set: it is what the provider's signatures are over")
    try:
        auth_tokens(telephony)
    except NoSecret as error:
        raise InvalidSetting(str(error)) from None
    async with pool_of(config, "perdure telephony", _PATIENCE) as pool:
        await until_stopped(StatusCallbacks(pool, telephony), host, port)
