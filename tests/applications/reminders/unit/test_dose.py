"""The reminder of one dose: sent once, in its window and outside the quiet hours, or visibly not. Rehearsed."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from activities.reminders.contracts.reminders import Dose, Opening
from activities.telephony.contracts import (
    FIND_PLACED_CALL,
    FIND_SMS,
    PLACE_CALL,
    SEND_SMS,
    Accepted,
    Channel,
    Reported,
    reference_of,
)
from perdure import InDoubt, NotDone, OperatorRequest, Refused
from perdure.contracts import EffectStatus, Key
from perdure.encryption import Private
from perdure.testing import After, At, Rehearsal, When, WhenIn, WorkerLost, rehearse
from workflows.reminders.dose import DoseReminder, Reminder

DUE = datetime(2026, 11, 21, 13, 0, tzinfo=UTC)
SMS, CALL = Channel.SMS, Channel.CALL
ACCEPTED = Reminder.ACCEPTED
SENDING, SENT, EXPIRED, REFUSED = Reminder.SENDING, Reminder.SENT, Reminder.EXPIRED, Reminder.REFUSED
MESSAGE, PLACED = Accepted(sid="SM" + "1" * 32, status="queued"), Accepted(sid="CA" + "2" * 32, status="queued")
BY_SMS = Key("dose/jo%2Fmetformin%2F2026-11-21T08:00/send-sms")
BY_CALL = Key("dose/jo%2Fmetformin%2F2026-11-21T08:00/place-call")
NO_LANDLINE = Refused("error 21614: not a mobile number")
DOWN = NotDone("connection refused")


def opening(start: float = 0, until: float = 60) -> Opening:
    """In minutes after it is due."""
    return Opening(start=DUE + timedelta(minutes=start), until=DUE + timedelta(minutes=until))


def report(of: Key, status: str, code: int | None = None, **more: Any) -> Reported:
    channel = SMS if of.startswith(BY_SMS) else CALL
    sid = MESSAGE.sid if channel is SMS else PLACED.sid
    return Reported(sid=sid, channel=channel, status=status, code=code, reference=reference_of(of), **more)


async def dose(
    sms: list[Any],
    call: list[Any] | None = None,
    *messages: Any,
    find_sms: list[Any] | None = None,
    find_call: list[Any] | None = None,
    openings: tuple[Opening, ...] = (opening(),),
    channels: tuple[Channel, ...] = (SMS, CALL),
    confirm: bool = False,
    start: datetime = DUE,
    **more: Any,
) -> Rehearsal[Reminder]:
    given = Dose(
        to=Private("+12025550100"),
        text=Private("It is time to take: Metformin."),
        language="en",
        channels=channels,
        due=DUE,
        openings=openings,
        confirm=confirm,
    )
    script = {
        SEND_SMS: sms,
        PLACE_CALL: call or [],
        FIND_SMS: find_sms or [],
        FIND_PLACED_CALL: find_call or [],
    }
    more = {"entity_id": "jo/metformin/2026-11-21T08:00", "messages": messages, "start": start, **more}
    return await rehearse(DoseReminder, given, script, **more, allow_unused=True)


@pytest.mark.parametrize("again", [False, True], ids=["in one run", "renewed at every wait"])
async def test_a_dose_is_sent_once(again: bool) -> None:
    seen = await dose([MESSAGE], renew_at_every_wait=again)
    assert (seen.states, seen.end, seen.keys) == ([SENDING, SENT], SENT, [BY_SMS])
    [notice] = seen.inputs(SEND_SMS)
    assert (notice.to.open(), notice.text.open()) == ("+12025550100", "It is time to take: Metformin.")
    assert notice.until == DUE + timedelta(hours=1)


async def test_the_preferred_channel_is_taken() -> None:
    seen = await dose([], [PLACED], channels=(CALL, SMS))
    assert (seen.end, seen.keys) == (SENT, [BY_CALL])


async def test_the_other_channel_is_taken_where_the_first_is_refused() -> None:
    seen = await dose([NO_LANDLINE], [PLACED])
    assert (seen.states, seen.keys) == ([SENDING, SENT], [BY_SMS, BY_CALL])


async def test_a_dose_is_refused_if_both_channels_are() -> None:
    seen = await dose([NO_LANDLINE], [Refused("error 21211: no telephone number")])
    assert (seen.states, seen.end) == ([SENDING, REFUSED], REFUSED)


ANN = OperatorRequest(by="ann")
DOUBTS: list[Any] = [WorkerLost(), InDoubt("reset after the request"), TimeoutError()]


@pytest.mark.parametrize("doubt", DOUBTS, ids=repr)
async def test_in_doubt_it_is_looked_up_and_neither_sent_again_nor_called(doubt: Any) -> None:
    seen = await dose([doubt], find_sms=[RuntimeError("no answer"), None, MESSAGE])
    assert (seen.states, seen.calls(SEND_SMS), seen.calls(PLACE_CALL)) == ([SENDING, SENT], 1, 0)


@pytest.mark.parametrize("doubt", DOUBTS, ids=repr)
async def test_in_doubt_at_its_expiry_it_expires_without_a_person_and_the_doubt_stands(doubt: Any) -> None:
    seen = await dose([doubt], find_sms=[RuntimeError("no answer")] * 200)
    assert (seen.states, seen.end, seen.attention) == ([SENDING, EXPIRED], EXPIRED, None)
    assert (seen.calls(SEND_SMS), seen.calls(PLACE_CALL), seen.took) == (1, 0, timedelta(hours=1))
    assert seen.effects[BY_SMS].status in (EffectStatus.IN_DOUBT, EffectStatus.ATTEMPTING)


async def test_in_doubt_it_is_not_sent_in_a_later_opening_either() -> None:
    seen = await dose([InDoubt("?")], find_sms=[RuntimeError("?")] * 200, openings=(opening(0, 10), opening(30, 60)))
    assert (seen.end, seen.calls(SEND_SMS), seen.took) == (EXPIRED, 1, timedelta(minutes=10))


async def test_a_message_that_was_certainly_not_sent_is_tried_until_its_window_ends() -> None:
    seen = await dose([DOWN] * 200)
    assert (seen.states, seen.end, seen.took) == ([SENDING, EXPIRED], EXPIRED, timedelta(hours=1))
    assert seen.calls(SEND_SMS) > 30


async def test_nothing_is_sent_in_the_quiet_hours_within_its_window() -> None:
    async def accepts(notice: Any, attempt: Any) -> Accepted:
        if notice.until < DUE + timedelta(hours=1):
            raise DOWN
        return MESSAGE

    seen = await dose([accepts] * 20, openings=(opening(0, 0.5), opening(30, 60)))
    assert (seen.end, seen.took) == (SENT, timedelta(minutes=30))
    assert seen.keys == [BY_SMS, BY_SMS + "/1"], "another opening, another end of its use, so another input"


async def test_a_dose_waits_for_the_end_of_the_quiet_hours() -> None:
    seen = await dose([MESSAGE], openings=(opening(45, 60),))
    assert (seen.states, seen.took) == ([SENDING, SENT], timedelta(minutes=45))


async def test_a_dose_whose_window_is_all_quiet_hours_expires_unsent() -> None:
    seen = await dose([], openings=())
    assert (seen.states, seen.keys, seen.took) == ([EXPIRED], [], timedelta(0))


async def test_yesterday_s_dose_expires_unsent() -> None:
    seen = await dose([], start=DUE + timedelta(hours=24))
    assert (seen.states, seen.keys, seen.took) == ([EXPIRED], [], timedelta(0))


async def test_a_dose_that_is_withdrawn_while_it_waits_is_never_sent() -> None:
    withdraw = At(
        timedelta(minutes=1), "cancel", OperatorRequest(by="dosage-reminders jo", note="the patient has paused")
    )
    seen = await dose([], None, withdraw, openings=(opening(45, 60),))
    assert (seen.end, seen.keys) == (Reminder.WITHDRAWN, [])
    seen = await dose([DOWN] * 99, None, withdraw)
    assert seen.end is Reminder.WITHDRAWN


async def test_a_dose_that_is_withdrawn_while_it_is_in_doubt_is_settled_first() -> None:
    withdraw = When(lambda status: any(each.status is EffectStatus.IN_DOUBT for each in status.effects), "cancel", ANN)
    seen = await dose([InDoubt("?")], None, withdraw, find_sms=[None, MESSAGE])
    assert (seen.end, seen.calls(SEND_SMS)) == (SENT, 1)


async def test_a_status_callback_settles_a_doubt() -> None:
    told = At(timedelta(minutes=3), "reported", report(BY_SMS, "sent"))
    seen = await dose([InDoubt("?")], None, told, find_sms=[RuntimeError("?")] * 99)
    assert (seen.end, seen.calls(SEND_SMS), seen.took) == (SENT, 1, timedelta(minutes=3))
    assert seen.effects[BY_SMS].receipt["sid"] == MESSAGE.sid


async def test_a_status_callback_about_something_else_settles_nothing() -> None:
    other = report(BY_SMS, "sent").model_copy(update={"reference": "ZZZZZZZZ"})
    seen = await dose(
        [InDoubt("?")], None, At(timedelta(minutes=3), "reported", other), find_sms=[RuntimeError("?")] * 99
    )
    assert (seen.end, seen.took) == (EXPIRED, timedelta(hours=1))


ASKED = MESSAGE.model_copy(update={"confirms_within": timedelta(minutes=5)})


async def test_with_confirmation_it_is_sent_once_the_provider_says_that_it_arrived() -> None:
    told = [
        At(timedelta(seconds=n), "reported", report(BY_SMS, status))
        for n, status in enumerate(("sent", "delivered"), 20)
    ]
    seen = await dose([ASKED], None, *told, confirm=True)
    assert (seen.states, seen.end, seen.took) == ([SENDING, ACCEPTED, SENT], SENT, timedelta(seconds=21))


@pytest.mark.parametrize("status", ["undelivered", "failed"])
async def test_with_confirmation_the_other_channel_is_taken_where_it_did_not_arrive(status: str) -> None:
    told = At(timedelta(seconds=20), "reported", report(BY_SMS, status, 30006))
    late = At(timedelta(seconds=19), "reported", report(BY_SMS, "sent"))
    seen = await dose([ASKED], [PLACED], late, told, confirm=True)
    assert (seen.end, seen.keys) == (SENT, [BY_SMS, BY_CALL])


@pytest.mark.parametrize("doubt", DOUBTS, ids=repr)
async def test_with_confirmation_a_callback_that_settles_a_doubt_is_not_the_last_word(doubt: Any) -> None:
    told = [At(timedelta(seconds=n), "reported", report(BY_SMS, s)) for n, s in ((90, "sent"), (99, "undelivered"))]
    seen = await dose([doubt], [PLACED], *told, confirm=True, find_sms=[RuntimeError("?")] * 9)
    assert (seen.end, seen.keys) == (SENT, [BY_SMS, BY_CALL])


@pytest.mark.parametrize("status", ["undelivered", "failed"])
async def test_with_confirmation_what_a_look_up_finds_undelivered_is_not_sent(status: str) -> None:
    found = ASKED.model_copy(update={"status": status})
    seen = await dose([InDoubt("?")], [PLACED], confirm=True, find_sms=[None, found])
    assert (seen.end, seen.keys) == (SENT, [BY_SMS, BY_CALL])


async def test_with_confirmation_what_a_look_up_finds_delivered_is_sent() -> None:
    found = ASKED.model_copy(update={"status": "delivered"})
    seen = await dose([InDoubt("?")], confirm=True, find_sms=[found])
    assert (seen.end, seen.took < timedelta(minutes=5)) == (SENT, True)


@pytest.mark.parametrize("again", [False, True], ids=["in one run", "renewed at every wait"])
async def test_an_accepted_dose_that_is_withdrawn_while_it_waits_to_be_confirmed_was_sent(again: bool) -> None:
    withdraw = At(
        timedelta(seconds=30), "cancel", OperatorRequest(by="dosage-reminders jo", note="the patient has paused")
    )
    seen = await dose([ASKED], None, withdraw, confirm=True, renew_at_every_wait=again)
    assert (seen.states, seen.end, seen.took) == ([SENDING, ACCEPTED, SENT], SENT, timedelta(seconds=30))


async def test_a_doubt_that_is_settled_as_accepted_by_a_withdrawal_was_sent() -> None:
    withdraw = When(lambda status: any(each.status is EffectStatus.IN_DOUBT for each in status.effects), "cancel", ANN)
    seen = await dose([InDoubt("?")], None, withdraw, confirm=True, find_sms=[None, ASKED])
    assert (seen.end, seen.calls(SEND_SMS)) == (SENT, 1)


async def test_withdrawn_while_the_other_channel_is_tried_it_was_not_sent() -> None:
    told = At(timedelta(seconds=20), "reported", report(BY_SMS, "undelivered", 30006))
    seen = await dose([ASKED], [DOWN] * 99, told, At(timedelta(seconds=50), "cancel", ANN), confirm=True)
    assert (seen.states, seen.end) == ([SENDING, ACCEPTED, SENDING, Reminder.WITHDRAWN], Reminder.WITHDRAWN)


async def test_a_failure_stands_whatever_comes_after_it() -> None:
    told = [At(timedelta(seconds=n), "reported", report(BY_SMS, s)) for n, s in enumerate(("undelivered", "sent"), 20)]
    seen = await dose([InDoubt("?")], [PLACED], *told, confirm=True, find_sms=[RuntimeError("?")] * 9)
    assert (seen.end, seen.keys) == (SENT, [BY_SMS, BY_CALL])


@pytest.mark.parametrize("again", [False, True], ids=["in one run", "renewed at every wait"])
@pytest.mark.parametrize("before", [True, False], ids=["before the receipt", "after it"])
async def test_a_delivery_stands_if_an_earlier_step_is_reported_after_it(before: bool, again: bool) -> None:
    told = [At(timedelta(seconds=n), "reported", report(BY_SMS, s)) for n, s in ((5, "delivered"), (6, "sent"))]
    takes = timedelta(seconds=9 if before else 1)
    seen = await dose([After(takes, ASKED)], None, *told, confirm=True, renew_at_every_wait=again)
    assert (seen.end, seen.took) == (SENT, max(takes, timedelta(seconds=5)))


async def test_a_delivery_that_a_look_up_finds_stands_if_an_earlier_step_was_reported() -> None:
    found = After(timedelta(seconds=9), ASKED.model_copy(update={"status": "delivered"}))
    alone = await dose([InDoubt("?")], confirm=True, find_sms=[found])
    during = At(alone.took - timedelta(seconds=5), "reported", report(BY_SMS, "sent"))
    seen = await dose([InDoubt("?")], None, during, confirm=True, find_sms=[found])
    assert (seen.end, seen.took) == (SENT, alone.took)


async def test_with_confirmation_and_no_word_it_is_sent_after_a_while() -> None:
    seen = await dose([ASKED], confirm=True)
    assert (seen.end, seen.took) == (SENT, timedelta(minutes=5))
    seen = await dose([MESSAGE], confirm=True)
    assert (seen.end, seen.took) == (SENT, timedelta(0)), "no callbacks were asked for"


async def test_a_new_run_keeps_the_reports_of_the_provider() -> None:
    told = [
        At(timedelta(minutes=3), "reported", report(BY_SMS, "undelivered", 30006)),
        WhenIn(SENDING, "reported", OTHER),
    ]
    seen = await dose([ASKED], [PLACED], *told, confirm=True, renew_at_every_wait=True)
    assert (seen.end, seen.keys) == (SENT, [BY_SMS, BY_CALL])


OTHER = Reported(sid=MESSAGE.sid, channel=SMS, status="queued", reference="ZZZZZZZZ")
