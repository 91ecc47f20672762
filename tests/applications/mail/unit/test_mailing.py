"""Each row of `mailing` is handed to `sendmail` as its kind declares, in each crash and doubt of a rehearsal."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from activities.mail.contracts.mail import Accepted
from activities.mail.contracts.sendmail import FIND_SENT_MAIL, SENDMAIL, Kind, Letter
from perdure import InDoubt, NotDone, OperatorRequest, Refused
from perdure.client import Resolution, SendAgain
from perdure.contracts import EffectStatus
from perdure.testing import At, Late, NotPickedUp, Rehearsal, WhenBlocked, WhenIn, WhenParked, WorkerLost, rehearse
from workflows.mail.mailing import Mailing, Post

LETTER = Letter(
    kind=Kind.EXACTLY_ONCE,
    sender="news@app.example",
    recipient="jo@reader.example",
    subject="Your invoice",
    body="Here it is.\n",
    headers={"Auto-Submitted": "auto-generated"},
)
KEY = "mailing/7/sendmail"
TAKEN = Accepted(queue_id="")
FOUND = Accepted(queue_id="4Q", delivery="sent")
PROCESSING, PROCESSED, FAILED, CANCELLED = Post.PROCESSING, Post.PROCESSED, Post.FAILED, Post.CANCELLED
ONCE, AT_LEAST = Kind.EXACTLY_ONCE, Kind.AT_LEAST_ONCE
ANN = OperatorRequest(by="ann")
DOUBTS: list[Any] = [WorkerLost(), InDoubt("was ended by SIGKILL"), TimeoutError(), OSError("no thread")]


async def mailing(
    kind: Kind, send: list[Any], find: list[Any] | None = None, *messages: Any, **more: Any
) -> Rehearsal[Post]:
    letter = more.pop("letter", LETTER).model_copy(update={"kind": kind})
    script = {SENDMAIL: send, FIND_SENT_MAIL: find or []}
    return await rehearse(Mailing, letter, script, messages=messages, entity_id="7", **more, allow_unused=True)


@pytest.mark.parametrize("kind", Kind)
async def test_a_mail_is_handed_over_once(kind: Kind) -> None:
    seen = await mailing(kind, [TAKEN])
    assert (seen.states, seen.end, seen.keys) == ([PROCESSING, PROCESSED], PROCESSED, [KEY])
    assert seen.inputs(SENDMAIL) == [LETTER.mail()]
    assert (LETTER.mail().recipient, LETTER.mail().headers) == ("jo@reader.example", LETTER.headers)


@pytest.mark.parametrize("doubt", DOUBTS, ids=repr)
async def test_at_least_once_sends_a_doubtful_mail_again_and_asks_nobody(doubt: Any) -> None:
    seen = await mailing(AT_LEAST, [doubt, doubt, TAKEN])
    assert (seen.states, seen.keys) == ([PROCESSING, PROCESSED], [KEY])
    assert (seen.calls(SENDMAIL), seen.calls(FIND_SENT_MAIL)) == (3, 0)


@pytest.mark.parametrize("doubt", DOUBTS, ids=repr)
async def test_exactly_once_finds_a_mail_that_was_taken_and_does_not_send_it_again(doubt: Any) -> None:
    seen = await mailing(ONCE, [doubt], [None, None, FOUND])
    assert (seen.states, seen.calls(SENDMAIL)) == ([PROCESSING, PROCESSED], 1)
    assert seen.effects[seen.keys[0]].receipt["queue_id"] == "4Q"


async def test_exactly_once_sends_again_what_is_missed_twice_when_nothing_can_be_in_flight() -> None:
    seen = await mailing(ONCE, [WorkerLost(), TAKEN], [None] * 20)
    assert (seen.states, seen.outcomes) == ([PROCESSING, PROCESSED], {KEY: [EffectStatus.NOT_DONE, EffectStatus.DONE]})
    assert seen.took >= SENDMAIL.timeout + timedelta(seconds=30)


async def test_a_single_miss_between_queue_and_log_does_not_count() -> None:
    """It had left the queue, and syslog was not there yet: the second question finds it."""
    late: list[Any] = [OSError("the queue can't be listed")] * 9
    seen = await mailing(ONCE, [WorkerLost()], [*late, None, FOUND])
    assert (seen.states, seen.calls(SENDMAIL), seen.took > SENDMAIL.timeout + timedelta(seconds=30)) == (
        [PROCESSING, PROCESSED],
        1,
        True,
    )


async def test_a_mail_system_that_is_stopped_for_minutes_needs_no_person() -> None:
    seen = await mailing(ONCE, [WorkerLost()], [OSError("the queue can't be listed")] * 39 + [FOUND])
    assert (seen.states, seen.calls(SENDMAIL)) == ([PROCESSING, PROCESSED], 1)
    assert seen.took > timedelta(minutes=8)


async def test_a_mail_system_that_can_not_be_asked_at_all_is_for_a_person() -> None:
    mute: list[Any] = [OSError("the queue can't be listed")] * 40
    seen = await mailing(ONCE, [WorkerLost()], mute)
    assert (seen.states, seen.waits_for) == ([PROCESSING], "resolve sendmail")
    assert "sendmail is in doubt" in (seen.attention or "")
    for outcome, states, calls in (
        ("done", [PROCESSING, PROCESSED], 1),
        ("not_done", [PROCESSING, PROCESSED], 2),
        ("abandoned", [PROCESSING, FAILED], 1),
    ):
        receipt = TAKEN.model_dump() if outcome == "done" else None
        said = Resolution(by="ann", outcome=EffectStatus(outcome), receipt=receipt)
        seen = await mailing(ONCE, [WorkerLost(), TAKEN], mute, WhenParked("resolve", said))
        assert (seen.states, seen.calls(SENDMAIL)) == (states, calls)


@pytest.mark.parametrize("kind", Kind)
@pytest.mark.parametrize("lost", [WorkerLost(before=True), NotPickedUp()], ids=repr)
async def test_a_crash_before_the_record_leaves_no_doubt(kind: Kind, lost: Any) -> None:
    seen = await mailing(kind, [lost, TAKEN])
    assert (seen.states, seen.calls(SENDMAIL), seen.calls(FIND_SENT_MAIL)) == ([PROCESSING, PROCESSED], 1, 0)


@pytest.mark.parametrize("kind", Kind)
async def test_a_full_queue_is_tried_again_under_the_same_key(kind: Kind) -> None:
    full = NotDone("/usr/sbin/sendmail ended with 75 (EX_TEMPFAIL): queue file write error")
    seen = await mailing(kind, [full] * 20 + [TAKEN])
    assert (seen.states, seen.keys, seen.calls(SENDMAIL)) == ([PROCESSING, PROCESSED], [KEY], 21)


@pytest.mark.parametrize("kind", Kind)
async def test_a_refusal_waits_for_a_person_and_goes_again_under_a_new_key(kind: Kind) -> None:
    no = Refused("/usr/sbin/sendmail ended with 67 (EX_NOUSER)")
    seen = await mailing(kind, [no])
    assert (seen.end, seen.waits_for, seen.attention) == (None, "retry_now", no.why)
    seen = await mailing(kind, [no, TAKEN], None, WhenIn(FAILED, "retry_now", ANN))
    assert (seen.states, seen.keys) == ([PROCESSING, FAILED, PROCESSING, PROCESSED], [KEY, f"{KEY}~1"])


async def test_a_mail_that_was_given_up_is_sent_anew_only_when_that_is_asked_for() -> None:
    given_up = WhenParked("resolve", Resolution(by="ann", outcome=EffectStatus.ABANDONED))
    asked = [WhenIn(FAILED, "retry_now", ANN), WhenIn(FAILED, "send_again", SendAgain(by="ann"))]
    seen = await mailing(ONCE, [InDoubt("ended with 70"), TAKEN], [OSError()] * 40, given_up, *asked)
    assert [each.how for each in seen.answers] == ["completed", "rejected", "completed"]
    assert (seen.states, seen.keys) == ([PROCESSING, FAILED, PROCESSING, PROCESSED], [KEY, f"{KEY}~1"])


async def test_a_worker_that_was_only_frozen_ends_it_with_its_late_word() -> None:
    seen = await mailing(ONCE, [Late(TAKEN, timedelta(hours=1))], [OSError()] * 40)
    assert (seen.states, seen.took, seen.calls(SENDMAIL)) == ([PROCESSING, PROCESSED], timedelta(hours=1), 1)


async def test_a_mail_can_be_cancelled_while_the_program_cannot_be_run() -> None:
    ours = NotDone("no program /usr/sbin/sendmail that can be run", retry_after=timedelta(hours=9))
    seen = await mailing(ONCE, [ours], None, At(timedelta(hours=1), "cancel", ANN))
    assert (seen.states, seen.took) == ([PROCESSING, CANCELLED], timedelta(hours=1))


@pytest.mark.parametrize(
    ("wrong", "named"),
    [
        ({"recipient": "nobody"}, "recipient"),
        ({"subject": "a\nBcc: all@reader.example"}, "subject"),
        ({"headers": {"Bcc": "all@reader.example"}}, "headers"),
    ],
)
async def test_a_row_of_which_no_mail_can_be_made_fails_says_why_and_can_be_cancelled(
    wrong: dict[str, Any], named: str
) -> None:
    letter = LETTER.model_copy(update=wrong)
    seen = await mailing(ONCE, [], letter=letter)
    assert (seen.states, seen.calls(SENDMAIL)) == ([FAILED], 0)
    assert (seen.attention or "").startswith(f"no mail can be made of it: {named}: ")
    assert not any(value in (seen.attention or "") for value in ("nobody", "reader.example"))
    seen = await mailing(ONCE, [], None, WhenBlocked("cancel", ANN), letter=letter)
    assert seen.states == [FAILED, CANCELLED]


@pytest.mark.parametrize("kind", Kind)
@pytest.mark.parametrize("way", [{"renew_at_every_wait": True}, {"started_directly": True}], ids=str)
async def test_new_runs_and_a_start_past_perdure_change_nothing(kind: Kind, way: dict[str, bool]) -> None:
    send, find = [NotDone("1"), WorkerLost(), Refused("no"), InDoubt("cut"), TAKEN], [None] * 20
    retry = WhenBlocked("retry_now", ANN)
    plain, other = await mailing(kind, send, find, retry), await mailing(kind, send, find, retry, **way)
    assert (other.states, other.calls(SENDMAIL), other.outcomes) == (
        plain.states,
        plain.calls(SENDMAIL),
        plain.outcomes,
    )
    assert other.end is PROCESSED
