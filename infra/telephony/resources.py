"""Messages and calls as the telephony server keeps and shows them: fields, lists, pages, events of calls.

Source: twilio.com/docs/messaging/api/message-resource, .../voice/api/call-resource and .../call-event-resource.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import format_datetime
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

VERSION = "2010-04-01"
FINAL = ("delivered", "undelivered", "failed", "canceled", "completed", "busy", "no-answer")
_REFERENCE = re.compile(r"Ref\. ([0-9A-Z]{8})\b")


@dataclass
class Resource:
    """A message or a call that was accepted.

    Attributes:
        form: what it was made of.
        events: the requests that were made for it.
    """

    sid: str
    account: str
    form: Mapping[str, str]
    created: datetime
    wanted: tuple[str, ...] = ()
    status: str = "queued"
    code: int | None = None
    sent: datetime | None = None
    ended: datetime | None = None
    events: list[dict[str, Any]] = field(default_factory=list)

    @property
    def call(self) -> bool:
        """Whether it is a call."""
        return self.sid.startswith("CA")

    @property
    def reference(self) -> str:
        """By which its sender finds it again: of its text, or of its callback URL."""
        if found := _REFERENCE.search(self.form.get("Body", "")):
            return found[1]
        return parse_qs(urlsplit(self.form.get("StatusCallback", "")).query).get("ref", [""])[0]

    @property
    def path(self) -> str:
        """Where it can be asked for, without `.json`."""
        return f"/{VERSION}/Accounts/{self.account}/{'Calls' if self.call else 'Messages'}/{self.sid}"

    def moved(self, status: str, code: int | None) -> None:
        """It is in another state."""
        self.status, self.code = ("ringing" if status == "initiated" else status), code
        now = datetime.now(UTC)
        self.sent = self.sent or now
        if status in FINAL:
            self.ended = now

    def shown(self) -> dict[str, Any]:
        """As the API shows it."""
        common = {
            "sid": self.sid,
            "account_sid": self.account,
            "api_version": VERSION,
            "date_created": _rfc2822(self.created),
            "date_updated": _rfc2822(self.ended or self.sent or self.created),
            "direction": "outbound-api",
            "from": self.form.get("From"),
            "to": self.form["To"],
            "status": self.status,
            "price": None,
            "price_unit": "USD",
            "uri": f"{self.path}.json",
        }
        return common | (self._of_call() if self.call else self._of_message())

    def _of_message(self) -> dict[str, Any]:
        return {
            "body": self.form.get("Body", ""),
            "date_sent": _rfc2822(self.sent),
            "error_code": self.code,
            "error_message": None if self.code is None else "Message Delivery - see the error code",
            "messaging_service_sid": self.form.get("MessagingServiceSid"),
            "num_media": "0",
            "num_segments": "1",
            "subresource_uris": {"media": f"{self.path}/Media.json"},
        }

    def _of_call(self) -> dict[str, Any]:
        return {
            "answered_by": None,
            "caller_name": None,
            "duration": "12" if self.status == "completed" else None,
            "end_time": _rfc2822(self.ended),
            "forwarded_from": None,
            "from_formatted": self.form.get("From"),
            "group_sid": None,
            "parent_call_sid": None,
            "phone_number_sid": "PN" + "0" * 32,
            "queue_time": "0",
            "start_time": _rfc2822(self.sent),
            "to_formatted": self.form["To"],
            "trunk_sid": None,
            "subresource_uris": {"events": f"{self.path}/Events.json"},
        }


def matches(resource: Resource, query: Mapping[str, str]) -> bool:
    """Whether the filters of a list let it through. What is not sent yet has no date to be listed by."""
    shown = resource.shown()
    for name, key in (("To", "to"), ("From", "from"), ("Status", "status")):
        if name in query and shown[key] != query[name]:
            return False
    dated = "StartTime" if resource.call else "DateSent"
    for sign in ("", "<", ">"):
        if (day := query.get(dated + sign)) is None:
            continue
        at = resource.sent.date().isoformat() if resource.sent else None
        if (
            at is None
            or (sign == "" and at != day[:10])
            or (sign == "<" and at > day[:10])
            or (sign == ">" and at < day[:10])
        ):
            return False
    return True


def page(name: str, path: str, query: Mapping[str, str], every: list[dict[str, Any]]) -> dict[str, Any]:
    """One page of a list: `PageSize` and `Page`, and where the next one is."""
    size = max(1, min(int(query.get("PageSize", "50")), 1000))
    number = int(query.get("Page", "0"))
    start = size * number

    def uri(page: int) -> str:
        token = {"PageToken": f"PA{page:032x}"} if page else {}
        return f"{path}?{urlencode({**query, 'PageSize': size, 'Page': page, **token})}"

    shown = every[start : start + size]
    return {
        name: shown,
        "end": start + max(len(shown) - 1, 0),
        "first_page_uri": uri(0),
        "next_page_uri": uri(number + 1) if len(every) > start + size else None,
        "page": number,
        "page_size": size,
        "previous_page_uri": uri(number - 1) if number else None,
        "start": start,
        "uri": uri(number),
    }


def _rfc2822(at: datetime | None) -> str | None:
    return None if at is None else format_datetime(at.replace(microsecond=0))
