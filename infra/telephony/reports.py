"""The status callbacks of the telephony server: signed as in the documentation, and late, twice or never as ordered.

Source: twilio.com/docs/usage/security; .../usage/webhooks/webhooks-connection-overrides;
.../messaging/guides/track-outbound-message-status; .../voice/api/call-resource.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
from collections.abc import Callable
from datetime import UTC, datetime
from email.utils import format_datetime
from typing import Any
from urllib.parse import parse_qs, urldefrag

import aiohttp
from yarl import URL

from infra.telephony.faults import Orders, Report
from infra.telephony.numbers import course_of
from infra.telephony.resources import VERSION, Resource

ASKED_FOR = {"initiated": "initiated", "ringing": "ringing", "in-progress": "answered"}
"""Events of calls, by the state that they report; every other state is reported as `completed`."""


class Reports:
    """Leads what was accepted through its states, and reports them.

    Args:
        token: the account's auth token.
        orders: what goes wrong.
        log: receives each callback.
        pace: seconds between two states.
        late: seconds by which a late callback is late.
    """

    def __init__(self, token: str, orders: Orders, log: Callable[..., None], *, pace: float, late: float) -> None:
        self.pace = pace
        self.late = late
        self._token = token
        self._orders = orders
        self._log = log
        self._running = set[asyncio.Task[None]]()

    def begin(self, resource: Resource) -> None:
        """Lead it through its states, from now on."""
        self._spawn(self._lead(resource))

    async def close(self) -> None:
        """Report no more."""
        for task in self._running:
            task.cancel()
        await asyncio.gather(*self._running, return_exceptions=True)

    async def idle(self) -> None:
        """Wait until everything has come to its end, and was reported."""
        while self._running:
            await asyncio.gather(*self._running, return_exceptions=True)

    def _spawn(self, work: Any) -> None:
        task = asyncio.ensure_future(work)
        self._running.add(task)
        task.add_done_callback(self._running.discard)

    async def _lead(self, resource: Resource) -> None:
        held: tuple[str, int | None] | None = None
        course = course_of(resource.form["To"], call=resource.call)
        for number, (status, code) in enumerate(course):
            await asyncio.sleep(self.pace)
            resource.moved(status, code)
            if not self._is_asked_for(resource, status):
                continue
            fault = self._orders.report()
            if fault is Report.REORDERED and held is None and number < len(course) - 1:
                held = (status, code)
                continue
            await self._report(resource, status, code, fault)
            if held is not None:
                await self._report(resource, *held, None)
                held = None

    @staticmethod
    def _is_asked_for(resource: Resource, status: str) -> bool:
        if not resource.form.get("StatusCallback"):
            return False
        return not resource.call or ASKED_FOR.get(status, "completed") in (resource.wanted or ("completed",))

    async def _report(self, resource: Resource, status: str, code: int | None, fault: Report | None) -> None:
        if fault is Report.MISSING:
            return self._log("callback", sid=resource.sid, status=status, outcome="missing")
        if fault is Report.LATE:
            return self._spawn(self._later(resource, status, code))
        for _ in range(2 if fault is Report.TWICE else 1):
            await self._post(resource, status, code)

    async def _later(self, resource: Resource, status: str, code: int | None) -> None:
        await asyncio.sleep(self.late)
        await self._post(resource, status, code)

    async def _post(self, resource: Resource, status: str, code: int | None) -> None:
        """Report it, and repeat that after 5xx, or no answer, as often as the fragment of the URL says (`#rc=5`)."""
        url, wishes = urldefrag(resource.form["StatusCallback"])
        repeats = int(parse_qs(wishes).get("rc", ["0"])[0])
        form = parameters(resource, status, code)
        headers = {"X-Twilio-Signature": signature(self._token, url, form), "I-Twilio-Idempotency-Token": resource.sid}
        outcome: int | str = "no answer"
        async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=15)) as session:
            for attempt in range(repeats + 1):
                try:
                    # As they stand: a URL that is spelt anew has another signature.
                    target = URL(url, encoded=True)
                    async with session.post(target, data=form, headers=headers) as answer:
                        outcome = answer.status
                except (aiohttp.ClientError, OSError, TimeoutError):
                    outcome = "no answer"
                if (isinstance(outcome, int) and outcome < 500) or attempt == repeats:
                    break
                await asyncio.sleep(0.1 * 2**attempt)
        event = {"method": "POST", "url": url, "parameters": {name.lower(): value for name, value in form.items()}}
        resource.events.append({"request": event, "response": {"response_code": outcome}})
        self._log("callback", sid=resource.sid, reference=resource.reference, status=status, outcome=outcome)


def parameters(resource: Resource, status: str, code: int | None) -> dict[str, str]:
    """The form of a callback."""
    common = {
        "AccountSid": resource.account,
        "ApiVersion": VERSION,
        "From": resource.form.get("From", ""),
        "To": resource.form["To"],
    }
    if resource.call:
        return common | {
            "CallSid": resource.sid,
            "CallStatus": status,
            "CallbackSource": "call-progress-events",
            "Called": resource.form["To"],
            "Caller": resource.form.get("From", ""),
            "Direction": "outbound-api",
            "SequenceNumber": "0",
            "Timestamp": format_datetime(datetime.now(UTC)),
            "ToState": "",
        }
    ids = {"MessageSid": resource.sid, "SmsSid": resource.sid, "MessageStatus": status, "SmsStatus": status}
    return common | ids | ({} if code is None else {"ErrorCode": str(code)})


def signature(token: str, url: str, form: dict[str, str]) -> str:
    """The header `X-Twilio-Signature`."""
    signed = url
    for name in sorted(form):
        signed += name + form[name]
    return base64.b64encode(hmac.new(token.encode(), signed.encode(), hashlib.sha1).digest()).decode()
