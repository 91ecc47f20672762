"""What the telephony server finds wrong with a request, and how it goes with a number: by numbers with a meaning.

Those of the range +1500555000x are the documented ones of Twilio's test credentials; +1500555600x are ours.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

GOOD: Final = "+15005550006"
"""The only number that may send, beside the senders that the server is given."""

LANDLINE: Final = "+15005556001"
"""A message is accepted, and ends `undelivered`, error 30006."""
NO_ANSWER: Final = "+15005556002"
"""A call is accepted, and ends `no-answer`."""
BUSY: Final = "+15005556003"
"""A call is accepted, and ends `busy`."""
UNREACHABLE: Final = "+15005556004"
"""A message ends `undelivered`, error 30003; a call ends `failed`."""

Wrong = tuple[int, str]
"""An error code and its message, which names the number as the real ones do."""

_MESSAGES: Final[dict[str, Wrong]] = {
    "+15005550001": (21211, "The 'To' number {to} is not a valid phone number."),
    "+15005550002": (21612, "The 'To' phone number: {to}, is not currently reachable using the 'From' phone number"),
    "+15005550003": (21408, "Permission to send an SMS has not been enabled for the region of {to}"),
    "+15005550004": (21610, "Attempt to send to unsubscribed recipient {to}"),
    "+15005550009": (21614, "'To' number: {to}, is not a valid mobile number"),
}
_CALLS: Final[dict[str, Wrong]] = {
    "+15005550001": (21217, "The phone number you are attempting to call, {to}, is not valid."),
    "+15005550002": (21214, "The phone number you are attempting to call, {to}, could not be found."),
    "+15005550003": (21215, "Account not authorized to call {to}. Perhaps you need to enable some permissions"),
    "+15005550004": (21216, "Account not allowed to call {to}"),
}
_SENDERS: Final[dict[str, Wrong]] = {
    "+15005550001": (21212, "The 'From' number {sender} is not a valid phone number."),
    "+15005550007": (21606, "The 'From' phone number {sender} is not a valid message-capable number for this account."),
    "+15005550008": (21611, "This 'From' number {sender} has exceeded the maximum number of queued messages"),
}
_E164 = re.compile(r"\+[1-9]\d{6,14}")


def wrong_with(form: Mapping[str, str], *, call: bool) -> Wrong | None:
    """The error of a request that would create something, in the real server's words; None if it is right."""
    to, sender = form.get("To", ""), form.get("From", "")
    if not to:
        return (21201 if call else 21604), "A 'To' phone number is required."
    if not sender and not form.get("MessagingServiceSid"):
        return (21213 if call else 21603), "A 'From' phone number is required."
    if sender in _SENDERS:
        code, text = _SENDERS[sender]
        return (21210 if call and code == 21606 else code), text.format(sender=sender)
    known = (_CALLS if call else _MESSAGES).get(to)
    if known is None and not _E164.fullmatch(to):
        known = (_CALLS if call else _MESSAGES)["+15005550001"]
    if known is not None:
        return known[0], known[1].format(to=to)
    return _wrong_content(form, call=call)


def _wrong_content(form: Mapping[str, str], *, call: bool) -> Wrong | None:
    if call:
        return None if form.get("Twiml") or form.get("Url") else (21205, "Url parameter is required.")
    if not form.get("Body"):
        return 21602, "Message body is required."
    if len(form["Body"]) > 1600:
        return 21617, "The concatenated message body exceeds the 1600 character limit."
    validity = form.get("ValidityPeriod", "36000")
    return None if validity.isdigit() and 1 <= int(validity) <= 36000 else (21622, "Invalid ValidityPeriod")


def course_of(to: str, *, call: bool) -> list[tuple[str, int | None]]:
    """The states that follow `queued`, with the error code of the last one."""
    if call:
        ending = {NO_ANSWER: "no-answer", BUSY: "busy", UNREACHABLE: "failed"}.get(to)
        begin: list[tuple[str, int | None]] = [("initiated", None), ("ringing", None)]
        return begin + ([(ending, None)] if ending else [("in-progress", None), ("completed", None)])
    code = {LANDLINE: 30006, UNREACHABLE: 30003}.get(to)
    return [("sent", None), ("delivered", None) if code is None else ("undelivered", code)]
