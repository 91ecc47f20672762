"""One request sends a notice, its answer decides the outcome, and no error quotes personal data."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any, Literal
from urllib.parse import parse_qs, urlsplit
from xml.etree import ElementTree

import pytest

from activities.telephony.contracts import Channel, reference_of
from activities.telephony.twilio.resources import Telephony
from activities.telephony.twilio.sending import send
from infra.telephony.numbers import LANDLINE
from infra.telephony.server import Fault, TelephonyServer
from perdure import InDoubt, NotDone, Refused
from tests.applications.telephony.fixtures import CALLBACKS, NUMBER, TEXT, attempt, notice, of_server, settings
from tests.deadline import DEADLINE, in_time, until, with_time_for
from tests.raw_page import RawPage, says

SMS, CALL = Channel.SMS, Channel.CALL


@pytest.fixture
async def server() -> AsyncIterator[TelephonyServer]:
    async with TelephonyServer(silence=0.5) as server:
        with settings(**of_server(server)):
            yield server


async def test_a_text_message_is_handed_over_with_its_reference(server: TelephonyServer) -> None:
    given = attempt()
    receipt = await send(SMS, notice(), given)
    (made,) = server.accepted
    reference = reference_of(given.key)
    assert (receipt.sid, receipt.status) == (made.sid, "queued")
    assert receipt.confirms_within is not None
    assert receipt.confirms_within > timedelta(minutes=60)
    assert made.form["To"] == NUMBER
    assert made.form["From"] == "+15005550006"
    assert made.form["Body"] == f"{TEXT}\nRef. {reference}"
    callback = urlsplit(made.form["StatusCallback"])
    assert made.form["StatusCallback"].startswith(CALLBACKS + "?")
    assert parse_qs(callback.query) == {"of": ["dose"], "id": [_id(given.key)], "ref": [reference]}
    assert callback.fragment == "rc=5&rp=ct,rt,5xx"


def _id(key: str) -> str:
    return key.split("/")[1].replace("%2F", "/").replace("%7E", "~")


async def test_wherever_it_waits_for_a_connection_it_leaves_the_providers_queue_by_its_end(
    server: TelephonyServer,
) -> None:
    """The provider counts from when it has accepted it, and that is by the end of the attempt."""
    one, given = notice(), attempt(60)
    latest = datetime.now(UTC) + timedelta(seconds=given.remaining)
    await send(SMS, one, given)
    (made,) = server.accepted
    assert one.until - timedelta(minutes=2) < latest + timedelta(seconds=int(made.form["ValidityPeriod"])) <= one.until


async def test_a_call_reads_the_text_out_twice_in_its_language(server: TelephonyServer) -> None:
    receipt = await send(CALL, notice(language="es-MX"), attempt())
    (made,) = server.accepted
    response = ElementTree.fromstring(made.form["Twiml"])
    assert [each.tag for each in response] == ["Pause", "Say", "Pause", "Say"]
    assert [(each.text, each.get("language")) for each in response.iter("Say")] == [(TEXT, "es-MX")] * 2
    assert made.wanted == ("initiated", "ringing", "answered", "completed")
    assert made.form["Timeout"] == "30"
    assert receipt.sid == made.sid


async def test_a_messaging_service_is_named_in_place_of_a_number(server: TelephonyServer) -> None:
    service = "MG" + "7" * 32
    with settings(**of_server(server, sender=service)):
        await send(SMS, notice(), attempt())
    assert server.accepted[0].form["MessagingServiceSid"] == service
    assert "From" not in server.accepted[0].form


async def test_without_a_callback_url_nothing_is_expected_to_be_reported(server: TelephonyServer) -> None:
    given = of_server(server)
    del given["callback_url"]
    with settings(**given):
        receipt = await send(SMS, notice(), attempt())
    assert receipt.confirms_within is None
    assert "StatusCallback" not in server.accepted[0].form


@pytest.mark.parametrize(
    ("fault", "ends", "why"),
    [
        (Fault.RESET_BEFORE, InDoubt, "the connection was closed|connection reset"),
        (Fault.RESET_AFTER, InDoubt, "the connection was closed|connection reset"),
        (Fault.ERROR_BEFORE, InDoubt, "answered 500, error 20500"),
        (Fault.ERROR_AFTER, InDoubt, "answered 500, error 20500"),
        (Fault.GATEWAY, InDoubt, "answered 502"),
        (Fault.TRUNCATED, InDoubt, "broke off"),
        (Fault.NOT_JSON, InDoubt, "answered 201 without a SID"),
        (Fault.REDIRECT, InDoubt, "answered 307"),
        (Fault.TOO_MANY, NotDone, "answered 429, error 20429: too many requests"),
        (Fault.UNAVAILABLE, NotDone, "answered 503, error 20503: the provider is not available"),
        (Fault.PASSWORD, NotDone, "answered 401, error 20003: the credentials are not valid"),
    ],
)
@pytest.mark.parametrize("channel", Channel)
async def test_how_a_request_ends_says_what_became_of_it(
    server: TelephonyServer, channel: Channel, fault: Fault, ends: type[Exception], why: str
) -> None:
    server.orders.order(fault)
    with pytest.raises(ends, match=why):
        await send(channel, notice(), attempt())
    assert len(server.asked) == 1, "nothing is made twice"


@pytest.mark.parametrize(("fault", "accepted"), [(Fault.DELAY_BEFORE, 0), (Fault.DELAY_AFTER, 1)])
async def test_no_answer_in_time_leaves_it_in_doubt(server: TelephonyServer, fault: Fault, accepted: int) -> None:
    server.silence = DEADLINE
    server.orders.order(fault)

    async def end_after(seconds: float) -> str:
        with pytest.raises((InDoubt, NotDone)) as ended:
            await send(SMS, notice(), attempt(seconds))
        return f"{type(ended.value).__name__}: {ended.value}"

    end = await with_time_for(lambda: server.orders.happened, end_after, 1.0)
    assert end == "InDoubt: the answer: nothing came in time"
    assert len(server.accepted) == accepted


@pytest.mark.parametrize(
    ("channel", "to", "why"),
    [
        (SMS, "+15005550001", "error 21211: the number is not valid"),
        (SMS, "+15005550002", "error 21612: the number can't be reached by text messages from this sender"),
        (SMS, "+15005550003", "error 21408: the account may not send text messages to this region"),
        (SMS, "+15005550004", "error 21610: the person has unsubscribed"),
        (SMS, "+15005550009", "error 21614: the number can't receive text messages"),
        (CALL, "+15005550001", "error 21217: the number does not appear to be valid"),
        (CALL, "+15005550002", "error 21214: the number can't be reached by a call"),
        (CALL, "+15005550003", "error 21215: the account may not call this region"),
        (CALL, "+15005550004", "error 21216: calls to the number are blocked"),
    ],
)
async def test_the_documented_numbers_are_refused_with_the_tables_own_words(
    server: TelephonyServer, channel: Channel, to: str, why: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    with pytest.raises(Refused, match=why) as refused:
        await send(channel, notice(to), attempt())
    assert to[1:] not in refused.value.why + caplog.text


@pytest.mark.parametrize(
    ("sender", "why", "pause"),
    [
        ("+15005550001", "error 21212.*PERDURE_TELEPHONY_SENDER", timedelta(minutes=5)),
        ("+15005550007", "error 21606.*PERDURE_TELEPHONY_SENDER", timedelta(minutes=5)),
        ("+15005550008", "error 21611: the sender's queue is full", timedelta(seconds=5)),
    ],
)
async def test_a_fault_of_our_settings_refuses_no_recipient(
    server: TelephonyServer, sender: str, why: str, pause: timedelta
) -> None:
    with settings(**of_server(server, sender=sender)), pytest.raises(NotDone, match=why) as ended:
        await send(SMS, notice(), attempt())
    assert ended.value.retry_after == pause


async def test_a_wrong_password_waits_for_the_operator(server: TelephonyServer) -> None:
    with settings(**of_server(server, auth_token="b" * 32)), pytest.raises(NotDone) as ended:
        await send(SMS, notice(), attempt())
    assert "PERDURE_TELEPHONY_AUTH_TOKEN" in ended.value.why
    assert ended.value.retry_after == timedelta(minutes=5)
    assert "bbb" not in ended.value.why


async def test_the_pause_that_the_provider_asks_for_is_kept(server: TelephonyServer) -> None:
    server.orders.order(Fault.TOO_MANY)
    with pytest.raises(NotDone) as ended:
        await send(SMS, notice(), attempt())
    assert ended.value.retry_after == timedelta(seconds=1)


async def test_a_provider_that_is_down_has_certainly_accepted_nothing(server: TelephonyServer) -> None:
    await server.down()
    with pytest.raises(NotDone, match="connecting: connection refused"):
        await send(SMS, notice(), attempt())


async def test_a_host_without_an_address_has_certainly_accepted_nothing(server: TelephonyServer) -> None:
    elsewhere = of_server(server, api_url="https://no-such-host.invalid")
    with settings(**elsewhere), pytest.raises(NotDone, match="the host's name has no address"):
        await send(SMS, notice(), attempt())


async def test_a_redirect_is_not_followed(server: TelephonyServer) -> None:
    server.orders.order(Fault.REDIRECT)
    with pytest.raises(InDoubt):
        await send(SMS, notice(), attempt())
    assert server.accepted == []


@pytest.mark.parametrize(("minutes", "left"), [(-1, 5.0), (0.05, 5.0)])
async def test_an_expired_message_does_not_leave(server: TelephonyServer, minutes: float, left: float) -> None:
    with pytest.raises(NotDone, match="of no use any more"):
        await send(SMS, notice(minutes=minutes), attempt(left))
    assert server.asked == []


async def test_an_attempt_that_is_over_does_not_leave(server: TelephonyServer) -> None:
    with pytest.raises(NotDone, match="the attempt's time was over"):
        await send(SMS, notice(), attempt(0.0))
    assert server.asked == []


@pytest.mark.parametrize(
    ("channel", "fields", "why"),
    [
        (SMS, {"to": "0171 555"}, "not in E.164"),
        (SMS, {"to": "whatsapp:+15552223333"}, "not in E.164"),
        (CALL, {"to": "+1555222333344445"}, "not in E.164"),
        (SMS, {"text": "x" * 1587}, "longer than 1600"),
        (CALL, {"text": "&" * 500}, "too long to be read out"),
        (CALL, {"text": "a\x00b"}, "characters that can't be read out"),
    ],
)
async def test_an_impossible_recipient_is_refused_before_anything_leaves(
    server: TelephonyServer, channel: Channel, fields: dict[str, Any], why: str
) -> None:
    with pytest.raises(Refused, match=why) as refused:
        await send(channel, notice(**fields), attempt())
    assert server.asked == []
    assert not any(value in refused.value.why for value in fields.values())


async def test_the_longest_text_that_fits_is_sent(server: TelephonyServer) -> None:
    await send(SMS, notice(text="x" * (1600 - len("\nRef. 12345678"))), attempt())
    assert len(server.accepted[0].form["Body"]) == 1600


async def test_a_landline_is_accepted_and_comes_to_nothing_later(server: TelephonyServer) -> None:
    await send(SMS, notice(LANDLINE), attempt())
    await server.reports.idle()
    assert (server.accepted[0].status, server.accepted[0].code) == ("undelivered", 30006)


async def test_a_sealed_text_without_its_key_is_sent_to_nobody_and_refuses_nobody(server: TelephonyServer) -> None:
    given = notice(text="perdure-sealed:2:old:text:" + "A" * 60)
    with pytest.raises(NotDone, match="this process has no keys") as ended:
        await send(SMS, given, attempt())
    assert ended.value.retry_after == timedelta(minutes=5)
    assert server.asked == []


@pytest.mark.parametrize(
    ("answer", "ends", "why"),
    [
        (b"HTTP/1.1 400 Bad Request\r\nContent-Length: 5\r\n\r\n<htm>", NotDone, "PERDURE_TELEPHONY_API_URL"),
        (b'HTTP/1.1 400 Bad Request\r\nContent-Length: 15\r\n\r\n{"code": 29999}', Refused, "error 29999: see"),
        (b"HTTP/1.1 204 No Content\r\n\r\n", InDoubt, "without a SID"),
        (b"HTTP/1.1 503 Unavailable\r\nContent-Length: 2\r\n\r\n{}", InDoubt, "answered 503"),
        (b"not http at all\r\n\r\n", InDoubt, "not HTTP"),
    ],
)
async def test_answers_that_are_not_documented(answer: bytes, ends: type[Exception], why: str) -> None:
    page = RawPage(says(answer))
    async with page.serving(), TelephonyServer() as server:
        with settings(**of_server(server, api_url=page.origin)), pytest.raises(ends, match=why):
            await send(SMS, notice(), attempt())
    assert page.connections == 1


class _NoPlaces(asyncio.Semaphore):
    """None is ever free."""

    def __init__(self) -> None:
        super().__init__(0)
        self.asked_for = asyncio.Event()

    async def acquire(self) -> Literal[True]:
        self.asked_for.set()
        return await super().acquire()


async def test_an_attempt_without_a_free_connection_has_certainly_sent_nothing(server: TelephonyServer) -> None:
    given, places = attempt(), _NoPlaces()
    given.resources = Telephony(places=places)
    sending = asyncio.ensure_future(send(SMS, notice(), given))
    await in_time(places.asked_for.wait())
    sending.cancel()
    with pytest.raises(NotDone, match="before a connection was free"):
        await sending
    assert server.asked == []


async def test_an_attempt_that_is_cancelled_on_its_way_stays_in_doubt(server: TelephonyServer) -> None:
    server.orders.order(Fault.DELAY_AFTER)
    sending = asyncio.ensure_future(send(SMS, notice(), attempt()))
    await until(lambda: server.accepted, "the request accepted", every=0.001)
    sending.cancel()
    with pytest.raises(asyncio.CancelledError):
        await sending


async def test_a_place_is_free_again_however_a_request_ends(server: TelephonyServer) -> None:
    given = attempt()
    given.resources = Telephony(places=asyncio.Semaphore(1))
    for fault in (Fault.RESET_AFTER, Fault.TOO_MANY):
        server.orders.order(fault)
        with pytest.raises((InDoubt, NotDone)):
            await send(SMS, notice(), given)
    await send(SMS, notice(), given)


async def test_without_resources_nothing_is_sent(server: TelephonyServer) -> None:
    given = attempt()
    given.resources = None
    with pytest.raises(NotDone, match="AssertionError"):
        await send(SMS, notice(), given)


async def test_nothing_of_the_person_or_the_account_is_logged(
    server: TelephonyServer, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    server.orders.order(None, Fault.RESET_AFTER, Fault.ERROR_AFTER, Fault.PASSWORD)
    told = repr(await send(SMS, notice(), attempt()))
    for _ in range(3):
        with pytest.raises((InDoubt, NotDone)) as ended:
            await send(CALL, notice(), attempt())
        told += repr(ended.value) + str(ended.value) + repr(ended.value.__context__)
    secrets = (NUMBER[1:], "Warfarin", server.token, "QUM1")
    assert [each for each in secrets if each in told + caplog.text] == []
