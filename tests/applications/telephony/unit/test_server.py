"""The provider's own library accepts the answers of the stand-in for the provider."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import parse_qsl

import pytest
from twilio.base.exceptions import TwilioRestException  # type: ignore[import-untyped]
from twilio.http.http_client import TwilioHttpClient  # type: ignore[import-untyped]
from twilio.request_validator import RequestValidator  # type: ignore[import-untyped]
from twilio.rest import Client  # type: ignore[import-untyped]

from infra.telephony.numbers import LANDLINE, NO_ANSWER
from infra.telephony.server import ACCOUNT, TOKEN, Chance, Fault, Report, TelephonyServer, accepted_in
from tests.pages import Pages, answers

T = TypeVar("T")
TO, SENDER = "+15552223333", "+15005550006"


class Redirected(TwilioHttpClient):  # type: ignore[misc]
    """The library's own client, led to the stand-in."""

    def __init__(self, origin: str) -> None:
        super().__init__(timeout=60)
        self._origin = origin

    def request(self, method: str, url: str, *args: Any, **options: Any) -> Any:
        return super().request(method, url.replace("https://api.twilio.com", self._origin), *args, **options)


class Library:
    """The provider's library, in a thread."""

    def __init__(self, server: TelephonyServer) -> None:
        self.client = Client(ACCOUNT, TOKEN, http_client=Redirected(server.origin))

    async def __call__(self, work: Callable[[Client], T]) -> T:
        return await asyncio.to_thread(work, self.client)


def _send(client: Client, to: str) -> Any:
    return client.messages.create(to=to, from_=SENDER, body="other")


@pytest.fixture
async def server() -> AsyncIterator[TelephonyServer]:
    async with TelephonyServer(pace=0.001, events_after=0.0) as server:
        yield server


async def test_the_library_sends_and_reads_messages(server: TelephonyServer) -> None:
    ask = Library(server)
    made = await ask(lambda client: client.messages.create(to=TO, from_=SENDER, body="hello", validity_period=60))
    assert made.sid is not None
    assert (made.status, made.direction, made.date_sent) == ("queued", "outbound-api", None)
    await server.reports.idle()
    sid = made.sid
    again = await ask(lambda client: client.messages(sid).fetch())
    assert (again.status, again.body, again.to) == ("delivered", "hello", TO)
    assert again.date_created is not None
    for other in ("+15552220001", "+15552220002", "+15552220003", "+15552220004"):
        await ask(partial(_send, to=other))
    assert len(await ask(lambda client: client.messages.list(page_size=2))) == 5
    (listed,) = await ask(lambda client: client.messages.list(to=TO, date_sent_after=again.date_created, page_size=2))
    assert listed.sid == sid


async def test_the_library_places_and_reads_calls_and_their_events(server: TelephonyServer) -> None:
    ask, url = Library(server), "https://127.0.0.1:9/x?ref=7K3Q9MXD"
    made = await ask(
        lambda client: client.calls.create(
            to=NO_ANSWER, from_=SENDER, twiml="<Response/>", status_callback=url, status_callback_event=["initiated"]
        )
    )
    assert made.sid is not None
    await server.reports.idle()
    sid = made.sid
    assert (await ask(lambda client: client.calls(sid).fetch())).status == "no-answer"
    assert [each.sid for each in await ask(lambda client: client.calls.list(to=NO_ANSWER))] == [sid]
    events = await ask(lambda client: client.calls(sid).events.list())
    assert [str(each.request["url"]) for each in events] == [url]


@pytest.mark.parametrize(
    ("fault", "status", "code"),
    [(Fault.TOO_MANY, 429, 20429), (Fault.ERROR_BEFORE, 500, 20500), (Fault.PASSWORD, 401, 20003)],
)
async def test_the_library_reads_its_errors(server: TelephonyServer, fault: Fault, status: int, code: int) -> None:
    server.orders.order(fault)
    with pytest.raises(TwilioRestException) as error:
        await Library(server)(lambda client: client.messages.create(to=TO, from_=SENDER, body="hello"))
    assert (error.value.status, error.value.code) == (status, code)


async def test_it_errs_at_the_documented_numbers(server: TelephonyServer) -> None:
    with pytest.raises(TwilioRestException, match="not a valid phone number") as error:
        await Library(server)(lambda client: client.messages.create(to="+15005550001", from_=SENDER, body="hello"))
    assert (error.value.status, error.value.code) == (400, 21211)


async def reported(
    server: TelephonyServer, *faults: Report | None, to: str = TO, fragment: str = "#rc=5", answered: Sequence[int] = ()
) -> list[str]:
    """The states that a message's callbacks told, each of them signed; the first of them are answered so."""
    pages = Pages()
    pages.replies["/status"] = [answers({}, each) for each in (*answered, 200)]
    server.orders.order_reports(*faults)
    async with pages.serving():
        url = f"{pages.origin}/status?id=a%2Fb"
        await Library(server)(
            lambda client: client.messages.create(to=to, from_=SENDER, body="hello", status_callback=url + fragment)
        )
        await server.reports.idle()
    validator = RequestValidator(TOKEN)
    told = []
    for each in pages.asked:
        form = dict(parse_qsl(each.body.decode(), keep_blank_values=True))
        assert validator.validate(url, form, each.headers["x-twilio-signature"])
        told.append(form["MessageStatus"])
    return told


@pytest.mark.parametrize(
    ("faults", "told"),
    [
        ((), ["sent", "delivered"]),
        ((Report.TWICE,), ["sent", "sent", "delivered"]),
        ((Report.MISSING,), ["delivered"]),
        ((Report.REORDERED,), ["delivered", "sent"]),
        ((Report.LATE,), ["delivered", "sent"]),
    ],
)
async def test_its_callbacks_are_signed_and_go_wrong_as_ordered(
    server: TelephonyServer, faults: tuple[Report, ...], told: list[str]
) -> None:
    server.reports.late = 0.1
    assert await reported(server, *faults) == told


@pytest.mark.parametrize(
    ("fragment", "answered", "told"),
    [
        ("#rc=5&rp=ct,rt,5xx", (503, 500), ["sent", "sent", "sent", "delivered"]),
        ("#rc=1", (503, 503), ["sent", "sent", "delivered"]),
        ("#rc=5", (404,), ["sent", "delivered"]),
        ("", (503,), ["sent", "delivered"]),
    ],
)
async def test_it_repeats_a_callback_that_was_answered_by_5xx_as_often_as_its_url_says(
    server: TelephonyServer, fragment: str, answered: Sequence[int], told: list[str]
) -> None:
    assert await reported(server, fragment=fragment, answered=answered) == told


async def test_a_landline_is_reported_as_undelivered(server: TelephonyServer) -> None:
    assert await reported(server, to=LANDLINE) == ["sent", "undelivered"]


async def test_what_it_accepted_is_counted_by_reference_also_from_its_log(tmp_path: Path) -> None:
    async with TelephonyServer(log=tmp_path / "log") as server:
        ask = Library(server)
        for _ in range(2):
            await ask(lambda client: client.messages.create(to=TO, from_=SENDER, body="hello\nRef. 7K3Q9MXD"))
        assert server.references == accepted_in(tmp_path / "log") == {"7K3Q9MXD": 2}


def test_chance_is_the_same_for_the_same_seed() -> None:
    def faults(seed: int) -> list[Fault | None]:
        chance = Chance(0.5, seed=seed)
        return [chance.request() for _ in range(50)]

    assert faults(1) == faults(1) != faults(2)
    assert 10 < sum(each is not None for each in faults(1)) < 40
