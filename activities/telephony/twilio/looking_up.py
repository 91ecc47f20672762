"""Looks up whether the provider has accepted a message or a call, in its list of those to that number.

A *hit* has our reference, in any later state, because it was accepted. A *miss* is a list that reaches back
to the first attempt, and holds nothing that could be it. Everything else is no answer.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any, Final
from urllib.parse import parse_qs, quote, urlencode, urlsplit

from activities.http.dates import date_of
from activities.http.exchange import Broken, Exchange, NotAllowed, spanned
from activities.secrets import NoSecret
from activities.telephony.contracts import Accepted, Channel, Notice, reference_of
from activities.telephony.settings import TelephonySettings, telephony_settings
from activities.telephony.twilio.outcomes import ending, read
from activities.telephony.twilio.request import account, get, mark, number, place
from activities.telephony.twilio.resources import telephony_of
from activities.telephony.twilio.sending import accepted, bounds
from perdure import LookupContext, NotDone

SECONDS: Final = 18.0
"""That it may take: less than the contract has."""
SKEW: Final = timedelta(minutes=10)
"""By how much the provider's clock may be behind the database's."""
PAGE: Final = 1000
"""The largest page."""
MOST_PAGES: Final = 10


async def look_up(channel: Channel, notice: Notice, question: LookupContext) -> Accepted | None:
    """The receipt, or None where the provider has nothing that could be it.

    Raises:
        NotDone: no answer, or one that does not show it.
        Refused: the number is none; nothing was ever sent to it.
    """
    config, clock = telephony_settings(), asyncio.get_running_loop().time
    ask = _Asking(config, question, clock() + SECONDS)
    reference, unclear = reference_of(question.key), 0
    async for each in ask.listed(channel, number(notice), question.first_at - SKEW):
        whose = _in_body(each, reference) if channel is Channel.SMS else await _in_events(ask, each, reference)
        if whose:
            return accepted(str(each.get("sid")), each.get("status"), channel, notice, config)
        unclear += whose is None
    if unclear:
        raise NotDone(f"{unclear} to the same number cannot be distinguished from it yet")
    return None


def _in_body(message: Mapping[str, Any], reference: str) -> bool | None:
    """Whether it is ours; None if its body was redacted, so that the answer is unknown."""
    body = message.get("body")
    return None if not isinstance(body, str) or not body else mark(reference) in body


async def _in_events(ask: _Asking, call: Mapping[str, Any], reference: str) -> bool | None:
    """Whether it is ours. A call shows no text and no callback URL; the requests that were made for it do, 15 minutes
    after its end. None until then.
    """
    path = f"{account(ask.config)}Calls/{quote(str(call.get('sid')), safe='')}/Events.json"
    references = set[str]()
    async for page in ask.pages(path):
        for event in _objects(page.get("events")):
            request = event.get("request")
            url = request.get("url") if isinstance(request, dict) else None
            references |= set(parse_qs(urlsplit(str(url)).query).get("ref", ()))
    return (reference in references) if references else None


class _Asking:
    """Looks up at the provider, until a moment."""

    def __init__(self, config: TelephonySettings, question: LookupContext, end: float) -> None:
        self.config = config
        self._telephony = telephony_of(question)
        self._end = end

    async def listed(self, channel: Channel, to: str, since: datetime) -> AsyncIterator[Mapping[str, Any]]:
        """The messages or calls to a number by our requests since a time.

        By the number alone: what is not sent yet has no date by which it could be listed, and the sender is a setting,
        which may have changed since. To the end: in what order they are listed is not documented.
        """
        path = f"{place(channel, self.config)}?{urlencode({'To': to, 'PageSize': PAGE})}"
        async for page in self.pages(path):
            for each in _objects(page.get("messages" if channel is Channel.SMS else "calls")):
                if _created(each) >= since and each.get("direction", "outbound-api") == "outbound-api":
                    yield each

    async def pages(self, path: str) -> AsyncIterator[Mapping[str, Any]]:
        """Page after page.

        Raises:
            NotDone: one of them was no answer, or there are too many.
        """
        for _ in range(MOST_PAGES):
            page = await self._page(path)
            yield page
            following = page.get("next_page_uri")
            if not following:
                return
            path = str(following)
            if not path.startswith(account(self.config)):
                raise NotDone("a list goes on at another place")
        raise NotDone(f"a list has more than {MOST_PAGES} pages")

    async def _page(self, path: str) -> dict[str, Any]:
        try:
            request = get(path, self.config)
            left = self._end - asyncio.get_running_loop().time()
            exchange = Exchange(request, self._telephony.names, seconds=left, bounds=bounds(self.config))
            async with self._telephony.places:
                answer = read(await spanned(exchange, request))
        except (Broken, NotAllowed, NoSecret) as error:
            raise NotDone(f"{error}") from None
        if answer.status != 200 or answer.data is None:
            raise NotDone(f"the list: {ending(answer).why}")
        return answer.data


def _objects(given: object) -> Iterable[dict[str, Any]]:
    """The objects of a list.

    Raises:
        NotDone: it is none.
    """
    if not isinstance(given, list) or not all(isinstance(each, dict) for each in given):
        raise NotDone("the list is not what the provider documents")
    return given


def _created(resource: Mapping[str, Any]) -> datetime:
    """When it was accepted (RFC 2822).

    Raises:
        NotDone: the answer does not show it.
    """
    at = date_of(str(resource.get("date_created")))
    if at is None:
        raise NotDone("the list is not what the provider documents: no date_created")
    return at
