"""The request to the provider: a message or a call as a form, with the reference by which look-ups find it."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Final
from urllib.parse import quote, unquote, urlencode
from xml.sax.saxutils import escape, quoteattr

from activities.http.exchange import HttpRequest
from activities.telephony.contracts import Channel, Notice, reference_of
from activities.telephony.settings import TelephonySettings
from activities.telephony.twilio.credentials import authorization
from perdure import Refused
from perdure.contracts import Key

VERSION: Final = "2010-04-01"
MOST_TEXT: Final = 1600
"""Characters of a message, with its reference."""
MOST_TWIML: Final = 4000
"""Limit of the instructions of a call, in characters."""
LEAST_VALIDITY: Final = 6
"""Seconds: "a validity period greater than 5 is recommended"; less is not worth sending."""
LONGEST_VALIDITY: Final = 36_000
RETRIES: Final = "#rc=5&rp=ct,rt,5xx"
"""Makes the provider repeat a callback that was not taken, for as long as it does that: 15 seconds in all."""
EVENTS: Final = ("initiated", "ringing", "answered", "completed")

_E164 = re.compile(r"\+[1-9]\d{1,14}")


def message(notice: Notice, key: Key, config: TelephonySettings, within: float) -> dict[str, str]:
    """The form that creates a message.

    Args:
        within: seconds after which the request is given up: it is accepted by then, or not at all.

    Raises:
        Refused: none can be made of the notice.
    """
    body = f"{notice.text.open()}\n{mark(reference_of(key))}"
    if len(body) > MOST_TEXT:
        raise Refused(f"the text is longer than {MOST_TEXT} characters, with its reference")
    sender = config.sender or ""
    form = {"To": number(notice), "Body": body, "ValidityPeriod": str(_validity(notice, within))}
    form["MessagingServiceSid" if sender.startswith("MG") else "From"] = sender
    if config.callback_url is not None:
        form["StatusCallback"] = callback_url(config.callback_url, key)
    return form


def call(notice: Notice, key: Key, config: TelephonySettings) -> list[tuple[str, str]]:
    """The form that creates a call.

    Raises:
        Refused: none can be made of the notice.
    """
    caller = config.caller or config.sender or ""
    form = [("To", number(notice)), ("From", caller), ("Twiml", twiml(notice)), ("Timeout", str(config.ring))]
    if config.callback_url is not None:
        form.append(("StatusCallback", callback_url(config.callback_url, key)))
        form += [("StatusCallbackEvent", each) for each in EVENTS]
    return form


def mark(reference: str) -> str:
    """The end of a message, which people can quote and look-ups find."""
    return f"Ref. {reference}"


def twiml(notice: Notice) -> str:
    """The content of a call, which reads the text twice.

    Raises:
        Refused: the text is too long, or has characters that XML has not.
    """
    text = escape(notice.text.open())
    if not all(each.isprintable() or each in "\t\r\n" for each in text):
        raise Refused("the text has characters that can't be read out")
    spoken = f"<Say language={quoteattr(notice.language)}>{text}</Say>"
    made = f'<Response><Pause length="1"/>{spoken}<Pause length="2"/>{spoken}</Response>'
    if len(made) > MOST_TWIML:
        raise Refused(f"the text is too long to be read out twice in {MOST_TWIML} characters of TwiML")
    return made


def number(notice: Notice) -> str:
    """The number.

    Raises:
        Refused: it is none.
    """
    given = notice.to.open()
    if not _E164.fullmatch(given):
        raise Refused("the number is not in E.164: a plus, the country's code, at most 15 digits, nothing else")
    return given


def callback_url(base: str, key: Key) -> str:
    """The URL for reports about the message under `key`. It names the lifecycle that receives them."""
    lifecycle, id = entity_of(key)
    query = urlencode({"of": lifecycle, "id": id, "ref": reference_of(key)}, quote_via=quote, safe="")
    return f"{base}?{query}{RETRIES}"


def entity_of(key: Key) -> tuple[str, str]:
    """Lifecycle and id of the entity whose effect has this key."""
    lifecycle, id, _ = str(key).split("/", 2)
    return lifecycle, unquote(id.partition("~")[0])


def post(channel: Channel, form: dict[str, str] | list[tuple[str, str]], config: TelephonySettings) -> HttpRequest:
    """The request that creates it.

    Raises:
        NoSecret: the credentials are not there.
    """
    headers = {
        "Authorization": authorization(config),
        "Content-Type": "application/x-www-form-urlencoded",
        "Accept": "application/json",
        "Accept-Encoding": "identity",
    }
    return HttpRequest("POST", f"{config.api_url}{place(channel, config)}", headers, urlencode(form).encode())


def get(path: str, config: TelephonySettings) -> HttpRequest:
    """A request that only reads.

    Raises:
        NoSecret: the credentials are not there.
    """
    headers = {"Authorization": authorization(config), "Accept": "application/json", "Accept-Encoding": "identity"}
    return HttpRequest("GET", config.api_url + path, headers)


def account(config: TelephonySettings) -> str:
    """Path of the account; all that is asked for is below it."""
    return f"/{VERSION}/Accounts/{config.account_sid}/"


def place(channel: Channel, config: TelephonySettings) -> str:
    """Path of the list of messages or calls."""
    return account(config) + ("Messages.json" if channel is Channel.SMS else "Calls.json")


def seconds_left(notice: Notice) -> float:
    """How long it is of use, by this machine's clock."""
    return (notice.until - datetime.now(UTC)).total_seconds()


def _validity(notice: Notice, within: float) -> int:
    """Seconds that a message may wait in the provider's queue. They count from when it is accepted: at the latest when
    the request is given up, having waited for a connection."""
    return max(min(int(seconds_left(notice) - within), LONGEST_VALIDITY), LEAST_VALIDITY)
