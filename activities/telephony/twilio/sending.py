"""Sends a notice by one request, and evaluates its end. Nothing here repeats a request, since requests are not
idempotent."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from ipaddress import ip_network
from typing import Final

from activities.http.exchange import Bounds, Broken, Exchange, HttpRequest, NotAllowed, Reply, spanned
from activities.secrets import NoSecret
from activities.telephony.contracts import Accepted, Channel, Notice
from activities.telephony.settings import TelephonySettings, telephony_settings
from activities.telephony.twilio.outcomes import OURS_PAUSE, ending, read
from activities.telephony.twilio.request import LEAST_VALIDITY, call, message, post, seconds_left
from activities.telephony.twilio.resources import Telephony, telephony_of
from perdure import Attempt, InDoubt, NotDone, Refused
from perdure.errors import PerdureError

_SID = re.compile(r"[A-Z]{2}[0-9a-f]{32}")
_EVERYWHERE: Final = (ip_network("0.0.0.0/0"), ip_network("::/0"))
_MOST: Final = 4_000_000
CONFIRMED_BY: Final = {Channel.SMS: timedelta(minutes=5), Channel.CALL: timedelta(minutes=5)}
"""How long the provider may still report progress after the last time at which a message may be sent."""


async def send(channel: Channel, notice: Notice, attempt: Attempt) -> Accepted:
    """Hand a notice over to the provider.

    Raises:
        NotDone: nothing was sent, also according to the provider's answer.
        Refused: the provider reports that it cannot reach this person by this channel.
        InDoubt: the request left, and the answer does not show the outcome.
    """
    config = telephony_settings()
    telephony, request = _prepared(channel, notice, attempt, config)
    async with _place(telephony):
        exchange = Exchange(
            request,
            telephony.names,
            seconds=attempt.remaining,
            before_first_byte=lambda: _still_of_use(notice, attempt),
            bounds=bounds(config),
        )
        answer = read(await _made(exchange, request))
    if answer.status // 100 != 2:
        raise ending(answer)
    sid, status = (answer.data or {}).get("sid"), (answer.data or {}).get("status")
    if not isinstance(sid, str) or not _SID.fullmatch(sid):
        raise InDoubt(f"answered {answer.status} without a SID")
    return accepted(sid, status, channel, notice, config)


def accepted(sid: str, status: object, channel: Channel, notice: Notice, config: TelephonySettings) -> Accepted:
    """The receipt."""
    confirms = timedelta(seconds=max(seconds_left(notice), 0)) + CONFIRMED_BY[channel]
    return Accepted(
        sid=sid,
        status=status if isinstance(status, str) else "",
        confirms_within=None if config.callback_url is None else timedelta(seconds=round(confirms.total_seconds())),
    )


def bounds(config: TelephonySettings) -> Bounds:
    """The settings name the provider's address, which may be anywhere. Errors of the connection are outcomes."""
    return Bounds(_EVERYWHERE, _MOST, config.ca_file, of_failures=True)


def _prepared(
    channel: Channel, notice: Notice, attempt: Attempt, config: TelephonySettings
) -> tuple[Telephony, HttpRequest]:
    try:
        key = attempt.key
        form = message(notice, key, config, attempt.remaining) if channel is Channel.SMS else call(notice, key, config)
        return telephony_of(attempt), post(channel, form, config)
    except (NotDone, Refused):
        raise
    except (NoSecret, PerdureError) as error:  # such as a sealed text whose key is not here
        raise NotDone(f"before the request: {error}", retry_after=OURS_PAUSE) from None
    except Exception as error:  # nothing was sent after any error; its message may quote the text
        raise NotDone(f"before the request: {type(error).__name__}", retry_after=OURS_PAUSE) from None


def _still_of_use(notice: Notice, attempt: Attempt) -> None:
    if seconds_left(notice) < LEAST_VALIDITY:
        raise NotDone("it was of no use any more when the request was about to leave")
    attempt.before_first_byte()


@asynccontextmanager
async def _place(telephony: Telephony) -> AsyncIterator[None]:
    """Take one of the connections of this worker. Without a connection in time, nothing was sent."""
    try:
        await telephony.places.acquire()
    except asyncio.CancelledError:
        raise NotDone("the attempt was over before a connection was free") from None
    try:
        yield
    finally:
        telephony.places.release()


async def _made(exchange: Exchange, request: HttpRequest) -> Reply:
    try:
        return await spanned(exchange, request)
    except Broken as error:
        raise (InDoubt if error.left else NotDone)(error.why) from None
    except NotAllowed as error:
        raise NotDone(f"{error} can't be connected to") from None
    except asyncio.CancelledError:
        # The caller ends the attempt in this way at its deadline, and uses this outcome.
        if exchange.left:
            raise
        raise NotDone(f"{exchange.stage}: the attempt was over") from None
