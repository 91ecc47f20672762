"""Each comment notifies its recipient once, whatever dies on the way: every crash, rehearsed."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from activities.comments.contracts import Comment
from activities.mail.contracts.mail import FIND_IN_MAIL_LOG, SEND_MAIL, Accepted, Mail
from perdure import InDoubt, NotDone, OperatorRequest, Refused
from perdure.client import Resolution, SendAgain
from perdure.contracts import EffectStatus
from perdure.testing import (
    After,
    At,
    Late,
    NotPickedUp,
    Rehearsal,
    WhenBlocked,
    WhenIn,
    WhenParked,
    WorkerLost,
    rehearse,
)
from workflows.comments.comment_notification import CommentNotification, Notice, mail_for

COMMENT = Comment(id=7, post_id=3, author="ann", body="Nice!", recipient="bob@example.org")
KEY = "comment-notification/7/send-mail"
ACCEPTED = Accepted(queue_id="4Q")
MISSES = [None] * 20
SENDING, SENT, ERROR, CANCELLED = Notice.SENDING, Notice.SENT, Notice.ERROR, Notice.CANCELLED
ANN = OperatorRequest(by="ann")


async def notify(send: list[Any], find: list[Any] | None = None, *messages: Any, **more: Any) -> Rehearsal[Notice]:
    script = {SEND_MAIL: send, FIND_IN_MAIL_LOG: find or []}
    return await rehearse(
        CommentNotification, COMMENT, script, messages=messages, entity_id="7", **more, allow_unused=True
    )


async def test_a_comment_is_notified_once() -> None:
    seen = await notify([ACCEPTED])
    assert (seen.states, seen.end) == ([SENDING, SENT], SENT)
    assert (seen.keys, seen.outcomes) == ([KEY], {KEY: [EffectStatus.DONE]})
    assert seen.inputs(SEND_MAIL) == [mail_for(COMMENT)]
    assert seen.effects[seen.keys[0]].receipt["queue_id"] == "4Q"


async def test_a_mail_accepted_before_the_crash_is_found_not_sent_again() -> None:
    seen = await notify([WorkerLost()], [ACCEPTED])
    assert seen.states == [SENDING, SENT]
    assert seen.calls(SEND_MAIL) == 1


async def test_a_mail_that_the_log_shows_only_later_is_found_not_sent_again() -> None:
    seen = await notify([WorkerLost()], [None, None, None, ACCEPTED])
    assert (seen.states, seen.calls(SEND_MAIL)) == ([SENDING, SENT], 1)


async def test_a_mail_that_the_log_never_shows_is_sent_again_once_nothing_can_be_in_flight() -> None:
    seen = await notify([WorkerLost(), ACCEPTED], MISSES)
    assert (seen.states, seen.outcomes) == ([SENDING, SENT], {KEY: [EffectStatus.NOT_DONE, EffectStatus.DONE]})
    assert seen.took >= SEND_MAIL.timeout + timedelta(seconds=30)


@pytest.mark.parametrize("lost", [WorkerLost(before=True), NotPickedUp()])
async def test_a_crash_before_the_record_needs_no_look_at_the_log(lost: Any) -> None:
    seen = await notify([lost, ACCEPTED])
    assert (seen.states, seen.calls(SEND_MAIL), seen.calls(FIND_IN_MAIL_LOG)) == ([SENDING, SENT], 1, 0)


async def test_crash_after_crash_sends_one_mail() -> None:
    seen = await notify(
        [WorkerLost(before=True), WorkerLost(), WorkerLost(before=True), WorkerLost()], [*MISSES[:7], ACCEPTED]
    )
    assert (seen.states, seen.outcomes[seen.keys[0]][-1]) == ([SENDING, SENT], EffectStatus.DONE)


async def test_a_crash_in_the_look_up_is_followed_by_another_look_up() -> None:
    seen = await notify([WorkerLost()], [WorkerLost(), WorkerLost(before=True), ACCEPTED])
    assert (seen.states, seen.calls(SEND_MAIL)) == ([SENDING, SENT], 1)


@pytest.mark.parametrize("doubt", [InDoubt("451 after the dot"), ConnectionResetError("reset"), TimeoutError()])
async def test_a_connection_that_breaks_after_the_mail_left_is_looked_up(doubt: Exception) -> None:
    seen = await notify([doubt], [ACCEPTED])
    assert (seen.states, seen.calls(SEND_MAIL)) == ([SENDING, SENT], 1)


async def test_a_server_that_is_away_is_tried_again_under_the_same_key() -> None:
    seen = await notify([NotDone("connection refused")] * 20 + [ACCEPTED])
    assert (seen.states, seen.keys, seen.calls(SEND_MAIL)) == ([SENDING, SENT], [KEY], 21)


async def test_a_refusal_waits_for_a_person_and_goes_again_under_a_new_key() -> None:
    seen = await notify([Refused("550 no such user"), ACCEPTED], None, WhenIn(ERROR, "retry_now", ANN))
    assert seen.states == [SENDING, ERROR, SENDING, SENT]
    assert seen.keys == [KEY, f"{KEY}~1"]


async def test_a_refusal_that_nobody_looks_at_stays_open_and_says_why() -> None:
    seen = await notify([Refused("550 no such user")])
    assert (seen.end, seen.waits_for, seen.attention) == (None, "retry_now", "550 no such user")


async def test_a_log_that_can_not_be_read_parks_it_until_somebody_says_what_happened() -> None:
    unreadable = [PermissionError("mail.log")] * 5
    seen = await notify([WorkerLost()], unreadable)
    assert (seen.states, seen.waits_for) == ([SENDING], "resolve send-mail")
    assert "send-mail is in doubt" in (seen.attention or "")

    receipt = {"queue_id": "4Q"}
    for outcome, states in (("done", [SENDING, SENT]), ("not_done", [SENDING, SENT]), ("abandoned", [SENDING, ERROR])):
        said = Resolution(by="ann", outcome=EffectStatus(outcome), receipt=receipt if outcome == "done" else None)
        seen = await notify([WorkerLost(), ACCEPTED], unreadable, WhenParked("resolve", said))
        assert (seen.states, seen.answers[0].result) == (states, f"resolved as {outcome}")


async def test_a_mail_that_was_given_up_is_sent_anew_only_when_that_is_asked_for() -> None:
    given_up = WhenParked("resolve", Resolution(by="ann", outcome=EffectStatus.ABANDONED))
    asked = [WhenIn(ERROR, "retry_now", ANN), WhenIn(ERROR, "send_again", SendAgain(by="ann"))]
    seen = await notify([InDoubt("cut off"), ACCEPTED], [OSError()] * 5, given_up, *asked)
    assert [each.how for each in seen.answers] == ["completed", "rejected", "completed"]
    assert (seen.states, seen.keys) == ([SENDING, ERROR, SENDING, SENT], [KEY, f"{KEY}~1"])


async def test_a_worker_that_was_only_frozen_ends_it_with_its_late_word() -> None:
    seen = await notify([Late(ACCEPTED, timedelta(hours=1))], [OSError()] * 5)
    assert (seen.states, seen.took, seen.calls(SEND_MAIL)) == ([SENDING, SENT], timedelta(hours=1), 1)


async def test_a_notification_can_be_cancelled_while_no_call_is_under_way() -> None:
    for pause in (timedelta(hours=9), timedelta.max):  # as a server may ask for
        seen = await notify([NotDone("away", retry_after=pause)], None, At(timedelta(hours=1), "cancel", ANN))
        assert (seen.states, seen.took) == ([SENDING, CANCELLED], timedelta(hours=1))


async def test_a_cancellation_does_not_tear_a_sending_apart() -> None:
    seen = await notify([After(timedelta(seconds=9), ACCEPTED)], None, At(timedelta(seconds=5), "cancel", ANN))
    assert (seen.states, seen.took) == ([SENDING, SENT], timedelta(seconds=9))


async def test_a_comment_of_which_no_mail_can_be_made_says_so_and_can_be_cancelled() -> None:
    wrong = COMMENT.model_copy(update={"recipient": "nobody"})
    seen = await rehearse(CommentNotification, wrong, {})
    assert (seen.states, seen.calls(SEND_MAIL)) == ([ERROR], 0)
    assert "no mail can be made of it" in (seen.attention or "")
    assert "nobody" not in (seen.attention or "")
    seen = await rehearse(CommentNotification, wrong, {}, messages=[WhenBlocked("cancel", ANN)])
    assert seen.states == [ERROR, CANCELLED]


@pytest.mark.parametrize("way", [{"renew_at_every_wait": True}, {"started_directly": True}])
@pytest.mark.parametrize(
    ("send", "find"),
    [
        ([ACCEPTED], []),
        ([NotDone("1"), NotDone("2"), ACCEPTED], []),
        ([WorkerLost(), WorkerLost(before=True), ACCEPTED], MISSES),
        ([Refused("no"), InDoubt("cut off")], [OSError(), None, ACCEPTED]),
    ],
)
async def test_new_runs_and_a_start_past_perdure_change_nothing(send: Any, find: Any, way: dict[str, bool]) -> None:
    retry = WhenBlocked("retry_now", ANN)
    plain, other = await notify(send, find, retry), await notify(send, find, retry, **way)
    assert (other.states, other.calls(SEND_MAIL)) == (plain.states, plain.calls(SEND_MAIL))
    assert (other.end, other.outcomes) == (SENT, plain.outcomes)


def test_the_mail_tells_of_the_comment() -> None:
    mail = mail_for(COMMENT)
    assert isinstance(mail, Mail)
    assert (mail.recipient, mail.subject) == ("bob@example.org", "ann commented on post 3")
    assert "Nice!" in mail.body
