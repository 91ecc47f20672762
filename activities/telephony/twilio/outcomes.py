"""The meaning of the provider's answers for a message or a call: one table for all of them.

Sources: twilio.com/docs/api/errors/<code>; twilio.com/docs/usage/twilios-response; RFC 9110, 15. The provider's own
words are never passed on: they quote the number.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from enum import Enum
from typing import Any, Final

from pydantic_core import from_json

from activities.http.exchange import Reply
from activities.http.retry_after import pause_of
from perdure import InDoubt, NotDone, Refused

OURS_PAUSE: Final = timedelta(minutes=5)
"""Between two attempts where an operator has to act first."""
BUSY_PAUSE: Final = timedelta(seconds=5)
"""The pause if the provider requests one without a duration."""
LONGEST_PAUSE: Final = timedelta(minutes=10)


class Verdict(Enum):
    """The meaning of an error code for the message or the call."""

    REFUSED = "refused: this person will never be reached so; another channel may"
    BUSY = "not done; again later"
    OURS = "not done, and nothing will be until an operator acts; again after `OURS_PAUSE`"


_R, _B, _O = Verdict.REFUSED, Verdict.BUSY, Verdict.OURS
TABLE: Final[dict[int, tuple[Verdict, str]]] = {
    # The number, the person behind it, or the text.
    21211: (_R, "the number is not valid"),
    21421: (_R, "the number is not valid"),
    21217: (_R, "the number does not appear to be valid"),
    13224: (_R, "the number is not valid, or can't be called"),
    21202: (_R, "the number is a premium number"),
    21214: (_R, "the number can't be reached by a call"),
    21216: (_R, "calls to the number are blocked by the provider"),
    21265: (_R, "the number is a short code"),
    21266: (_R, "the number is the sender's own"),
    21268: (_R, "the number is a premium or information number"),
    21610: (_R, "the person has unsubscribed from the sender"),
    21612: (_R, "the number can't be reached by text messages from this sender"),
    21614: (_R, "the number can't receive text messages"),
    21635: (_R, "the number is a landline"),
    21602: (_R, "the text is empty"),
    21617: (_R, "the text is too long"),
    21619: (_R, "the text is empty"),
    # Whole regions. An operator may open them; meanwhile the other channel may go there.
    21408: (_R, "the account may not send text messages to this region: see its geographic permissions"),
    21215: (_R, "the account may not call this region: see its geographic permissions"),
    13227: (_R, "the account may not call this region: see its geographic permissions"),
    # "A request that receives an error 429 is never processed and is always safe to retry."
    20429: (_B, "too many requests at a time"),
    20503: (_B, "the provider is not available for now"),
    21611: (_B, "the sender's queue is full"),
    22005: (_B, "the account's queue of calls is full"),
    63017: (_B, "the account's rate is exceeded"),
    14107: (_B, "the sender's rate is exceeded"),
    # Errors of ours. A wrong password must not refuse all doses of a day.
    10001: (_O, "the account is not active"),
    10002: (_O, "a trial account can't do this"),
    20001: (_O, "the credentials are not valid"),
    20003: (_O, "the credentials are not valid: see PERDURE_TELEPHONY_ACCOUNT_SID and PERDURE_TELEPHONY_AUTH_TOKEN"),
    20005: (_O, "the account is not active"),
    20006: (_O, "the account may not do this"),
    20008: (_O, "these are test credentials, which can't do this"),
    20404: (_O, "there is no such account: see PERDURE_TELEPHONY_ACCOUNT_SID"),
    70051: (_O, "the API key may not do this"),
    21205: (_O, "the callback URL is not valid: see PERDURE_TELEPHONY_CALLBACK_URL"),
    21609: (_O, "the callback URL is not valid: see PERDURE_TELEPHONY_CALLBACK_URL"),
    21208: (_O, "the time to ring is not valid: see PERDURE_TELEPHONY_RING"),
    21210: (_O, "the caller is not a verified number of the account: see PERDURE_TELEPHONY_CALLER"),
    21212: (_O, "the sender is not valid: see PERDURE_TELEPHONY_SENDER and PERDURE_TELEPHONY_CALLER"),
    21213: (_O, "there is no caller: see PERDURE_TELEPHONY_CALLER"),
    21219: (_O, "a trial account calls verified numbers only"),
    21401: (_O, "the sender can't send text messages: see PERDURE_TELEPHONY_SENDER"),
    21601: (_O, "the sender is no number of the account: see PERDURE_TELEPHONY_SENDER"),
    21603: (_O, "there is no sender: see PERDURE_TELEPHONY_SENDER"),
    21606: (_O, "the sender can't send to this destination, or is not the account's: see PERDURE_TELEPHONY_SENDER"),
    21608: (_O, "a trial account sends to verified numbers only"),
    21659: (_O, "the sender is no number of the provider: see PERDURE_TELEPHONY_SENDER"),
    21660: (_O, "the sender is another account's: see PERDURE_TELEPHONY_SENDER"),
    21701: (_O, "there is no such messaging service: see PERDURE_TELEPHONY_SENDER"),
    21703: (_O, "the messaging service has no sender"),
    21704: (_O, "the messaging service has no sender"),
    21705: (_O, "the messaging service is not valid: see PERDURE_TELEPHONY_SENDER"),
    63038: (_O, "the account's messages of the day are used up"),
}
"""Documented error codes. One that is not here is judged by its status."""
_OURS_STATUSES: Final = (401, 403, 404, 405, 407)


@dataclass(frozen=True, slots=True)
class ReadReply:
    """An answer that was read.

    Attributes:
        data: its JSON object; None where it has none.
        code: the provider's error code, if it has one.
    """

    status: int
    data: dict[str, Any] | None
    code: int | None
    pause: timedelta | None


def read(reply: Reply) -> ReadReply:
    """Read an answer."""
    try:
        data = from_json(reply.body) if reply.body else None
    except ValueError:
        data = None
    data = data if isinstance(data, dict) else None
    code = (data or {}).get("code")
    pause = pause_of(reply.headers.get("Retry-After"))
    return ReadReply(
        reply.status,
        data,
        code if isinstance(code, int) and not isinstance(code, bool) else None,
        None if pause is None else min(pause, LONGEST_PAUSE),
    )


def ending(given: ReadReply) -> NotDone | Refused | InDoubt:
    """The exception that reports an answer which is no acceptance."""
    verdict, why = _judged(given)
    match verdict:
        case Verdict.REFUSED:
            return Refused(why)
        case Verdict.BUSY:
            return NotDone(why, retry_after=given.pause or BUSY_PAUSE)
        case Verdict.OURS:
            return NotDone(why, retry_after=given.pause or OURS_PAUSE)
        case None:
            return InDoubt(why)


def _judged(given: ReadReply) -> tuple[Verdict | None, str]:
    """None = it may have been done."""
    known = TABLE.get(given.code or 0)
    why = f"answered {given.status}" + (f", error {given.code}" if given.code is not None else "")
    if given.status == 503 and given.code == 20503:
        return Verdict.BUSY, f"{why}: {TABLE[20503][1]}"
    if given.status // 100 != 4:  # 5xx: "it is possible for a customer to receive multiple messages" (error 20500)
        return None, why
    if known is not None:
        return known[0], f"{why}: {known[1]}"
    if given.status in (408, 425, 429):
        return Verdict.BUSY, why
    if given.status in _OURS_STATUSES or given.code is None:
        return Verdict.OURS, f"{why}: see PERDURE_TELEPHONY_API_URL and the account"
    return Verdict.REFUSED, f"{why}: see twilio.com/docs/api/errors/{given.code}"
