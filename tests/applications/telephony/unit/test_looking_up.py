"""A look-up finds what was accepted, takes nobody else's for it, and calls nothing a miss that it can't see."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from activities.telephony.contracts import Channel
from activities.telephony.twilio import looking_up
from activities.telephony.twilio.looking_up import look_up
from activities.telephony.twilio.sending import send
from infra.telephony.numbers import LANDLINE
from infra.telephony.resources import Resource
from infra.telephony.server import Fault, TelephonyServer
from perdure import InDoubt, NotDone
from perdure.contracts import Key
from tests.applications.telephony.fixtures import NUMBER, attempt, key, notice, of_server, question, settings
from tests.raw_page import RawPage, says

SMS, CALL = Channel.SMS, Channel.CALL


@pytest.fixture
async def server() -> AsyncIterator[TelephonyServer]:
    async with TelephonyServer(events_after=0.0, pace=0.001) as server:
        with settings(**of_server(server)):
            yield server


async def sent(server: TelephonyServer, channel: Channel, fault: Fault | None = None, to: str = NUMBER) -> Key:
    """Send a notice; its key."""
    one = key()
    server.orders.order(fault)
    if fault is None:
        await send(channel, notice(to), attempt(of=one))
    else:
        with pytest.raises(InDoubt):
            await send(channel, notice(to), attempt(of=one))
    await server.reports.idle()
    return one


def aged(server: TelephonyServer, by: timedelta) -> None:
    """Let all that was accepted be so much older."""
    for each in server.accepted:
        each.created -= by


@pytest.mark.parametrize("channel", Channel)
async def test_an_accepted_message_is_found_although_the_reply_was_lost(
    server: TelephonyServer, channel: Channel
) -> None:
    other, one = await sent(server, channel), await sent(server, channel, Fault.RESET_AFTER)
    found = await look_up(channel, notice(), question(one))
    assert found is not None
    assert [each.sid for each in server.accepted] == [server.accepted[0].sid, found.sid]
    assert other != one


@pytest.mark.parametrize("channel", Channel)
async def test_a_message_that_was_not_accepted_is_a_miss_beside_others_to_the_same_number(
    server: TelephonyServer, channel: Channel
) -> None:
    await sent(server, channel)
    one = await sent(server, channel, Fault.RESET_BEFORE)
    assert await look_up(channel, notice(), question(one)) is None


async def test_a_message_that_failed_after_its_acceptance_is_found(server: TelephonyServer) -> None:
    one = await sent(server, SMS, Fault.ERROR_AFTER, LANDLINE)
    found = await look_up(SMS, notice(LANDLINE), question(one))
    assert found is not None
    assert found.status == "undelivered"


async def test_a_message_that_is_not_sent_yet_is_found(server: TelephonyServer) -> None:
    server.reports.pace = 3600
    one = key()
    await send(SMS, notice(), attempt(of=one))
    assert server.accepted[0].sent is None
    assert await look_up(SMS, notice(), question(one)) is not None


async def test_a_message_is_found_by_its_number_if_the_sender_has_changed(server: TelephonyServer) -> None:
    one = await sent(server, SMS, Fault.TRUNCATED)
    with settings(**of_server(server, sender="MG" + "1" * 32)):
        assert await look_up(SMS, notice(), question(one)) is not None


async def test_a_list_that_lags_is_a_miss_first_and_a_hit_then(server: TelephonyServer) -> None:
    server.lag = 3600.0
    one = await sent(server, SMS, Fault.RESET_AFTER)
    assert await look_up(SMS, notice(), question(one)) is None
    server.lag = 0.0
    assert await look_up(SMS, notice(), question(one)) is not None


async def test_a_text_that_was_redacted_can_not_be_told_apart(server: TelephonyServer) -> None:
    await sent(server, SMS)
    server.accepted[0].form = {**server.accepted[0].form, "Body": ""}
    with pytest.raises(NotDone, match="1 to the same number cannot be distinguished"):
        await look_up(SMS, notice(), question(key()))


async def test_a_call_can_not_be_told_apart_before_its_events_are_shown(server: TelephonyServer) -> None:
    one = await sent(server, CALL, Fault.RESET_AFTER)
    server.events_after = 900.0
    with pytest.raises(NotDone, match="1 to the same number cannot be distinguished"):
        await look_up(CALL, notice(), question(one))
    with pytest.raises(NotDone, match="1 to the same number cannot be distinguished"):
        await look_up(CALL, notice(), question(key()))
    assert await look_up(CALL, notice("+15552224444"), question(key())) is None


async def test_only_what_came_since_the_first_attempt_is_looked_at(server: TelephonyServer) -> None:
    await sent(server, CALL)
    server.events_after = 900.0
    aged(server, timedelta(hours=1))
    assert await look_up(CALL, notice(), question(key())) is None


async def test_the_provider_s_clock_may_be_some_minutes_behind(server: TelephonyServer) -> None:
    one = await sent(server, SMS, Fault.RESET_AFTER)
    aged(server, timedelta(minutes=5))
    assert await look_up(SMS, notice(), question(one)) is not None


@pytest.mark.parametrize("newest_first", [True, False])
async def test_a_list_is_read_to_its_end_in_whatever_order_it_is(
    server: TelephonyServer, newest_first: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(looking_up, "PAGE", 2)
    one = await sent(server, SMS, Fault.RESET_AFTER)
    for number in range(4):
        sid = f"SM{number:032x}"
        old = datetime.now(UTC) - timedelta(days=30 - number)
        form = {**server.accepted[0].form, "Body": "an older one\nRef. 00000000"}
        server.resources[sid] = Resource(sid, server.account, form, old)
    if newest_first:
        server.resources = dict(reversed(server.resources.items()))
    asked = counted(server)
    assert await look_up(SMS, notice(), question(one)) is not None
    assert await look_up(SMS, notice(), question(key())) is None
    assert len(asked) == (1 if newest_first else 3) + 3


def counted(server: TelephonyServer) -> list[str]:
    """The paths that are asked for from now on."""
    asked: list[str] = []
    show = server._show

    def counting(request: Any, parts: list[str]) -> Any:
        asked.append(request.path_qs)
        return show(request, parts)

    server._show = counting  # type: ignore[method-assign]
    return asked


async def test_a_list_without_an_end_is_no_answer(server: TelephonyServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(looking_up, "PAGE", 1)
    monkeypatch.setattr(looking_up, "MOST_PAGES", 2)
    for _ in range(3):
        await sent(server, SMS)
    with pytest.raises(NotDone, match="more than 2 pages"):
        await look_up(SMS, notice(), question(key()))


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (b"{}", "not what the provider documents"),
        (b'{"messages": [1]}', "not what the provider documents"),
        (b'{"messages": [{"sid": "SM"}]}', "no date_created"),
        (b'{"messages": [{"date_created": "Fri, 31 Dec 99999999999 23:59:59 GMT"}]}', "no date_created"),
        (b"[]", "the list: answered 200"),
        (b'{"messages": [], "next_page_uri": "https://elsewhere.example/"}', "goes on at another place"),
        (b'{"messages": [', "the list: answered 200"),
    ],
)
async def test_a_reply_that_is_no_list_is_no_answer(body: bytes, why: str) -> None:
    page = RawPage(says(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body) + body))
    async with page.serving(), TelephonyServer() as server:
        with settings(**of_server(server, api_url=page.origin)), pytest.raises(NotDone, match=why):
            await look_up(SMS, notice(), question(key()))


async def test_a_provider_that_is_down_or_does_not_know_us_is_no_answer(server: TelephonyServer) -> None:
    with settings(**of_server(server, auth_token="b" * 32)), pytest.raises(NotDone, match="error 20003"):
        await look_up(SMS, notice(), question(key()))
    await server.down()
    with pytest.raises(NotDone, match="connection refused"):
        await look_up(SMS, notice(), question(key()))


async def test_nothing_of_the_person_is_logged_or_said(
    server: TelephonyServer, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    server.events_after = 900.0
    await sent(server, CALL)
    with pytest.raises(NotDone) as ended:
        await look_up(CALL, notice(), question(key()))
    assert [each for each in (NUMBER[1:], "Warfarin", server.token) if each in ended.value.why + caplog.text] == []
