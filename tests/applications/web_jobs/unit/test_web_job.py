"""Each path of a web job, rehearsed: held, called, in doubt, followed, called back, with children, cancelled."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from activities.web_jobs.contracts import (
    ADVANCE,
    AGAIN,
    CALL,
    CALL_INLINE,
    FIND_CALL,
    FOLLOW,
    LAST_LOOK,
    LIST,
    PASS_ON,
    ROUTE,
    Answer,
    CalledBack,
    Family,
    Job,
    Left,
    Policy,
    Route,
    Then,
)
from perdure import InDoubt, NotDone, OperatorRequest, Refused
from perdure.client import Resolution
from perdure.contracts import EffectStatus
from perdure.testing import After, At, Rehearsal, WhenBlocked, WhenIn, WhenParked, WorkerLost, rehearse
from workflows.web_jobs.web_job import LOOK_AGAIN, SOON, Progress, WebJob

HELD, PROCESSING, COMPLETE, FAILED = Progress.HELD, Progress.PROCESSING, Progress.COMPLETE, Progress.FAILED
CANCELLED = Progress.CANCELLED
DONE = Answer(status=200, then=Then.NOTHING)
ANN = OperatorRequest(by="ann", note="not today")
LISTED = Answer(status=200, then=Then.CHILDREN, children=3)
WOKEN = "children_moved"


async def job(
    script: dict[Any, list[Any]], *messages: Any, route: Route | None = None, **more: Any
) -> Rehearsal[Progress]:
    """A job of the type `page`; every script begins with its route."""
    return await rehearse(
        WebJob, Job(type="page"), {ROUTE: [route or Route()]} | script, messages=messages, **more, allow_unused=True
    )


def family(*, done: int = 0, failed: int = 0, open: int = 0, waiting: int = 0, **more: Any) -> Family:
    """How far three children are, or as many as that makes."""
    listed = done + failed + open + waiting + more.get("cancelled", 0)
    return Family(listed=listed, done=done, failed=failed, open=open, waiting=waiting, **more)


async def test_a_job_is_called_once_and_is_complete() -> None:
    seen = await job({CALL: [DONE]})
    assert (seen.states, seen.calls(CALL)) == ([PROCESSING, COMPLETE], 1)


async def test_a_page_that_answers_soon_is_called_inline() -> None:
    seen = await job({CALL_INLINE: [DONE]}, route=Route(timeout=timedelta(seconds=5)))
    assert (seen.states, seen.calls(CALL_INLINE), seen.calls(CALL)) == ([PROCESSING, COMPLETE], 1, 0)


async def test_a_refusal_fails_it_with_the_reason() -> None:
    seen = await job({CALL: [Refused("answered 422")]})
    assert seen.states == [PROCESSING, FAILED]


async def test_a_held_job_waits_for_word_that_its_type_holds_it_no_longer() -> None:
    routes = [Route(held="disabled"), Route(held="disabled"), Route()]
    seen = await job({ROUTE: routes, CALL: [DONE]}, At(timedelta(minutes=3), "type_changed"))
    assert seen.states == [HELD, PROCESSING, COMPLETE]
    assert timedelta(minutes=3) <= seen.took < timedelta(minutes=4)


async def test_a_held_job_that_is_told_nothing_looks_by_itself() -> None:
    routes = [Route(held="disabled"), Route(held="disabled"), Route(held="disabled"), Route()]
    seen = await job({ROUTE: routes, CALL: [DONE]})
    assert seen.states == [HELD, PROCESSING, COMPLETE]
    assert 2 * LOOK_AGAIN <= seen.took < 3 * LOOK_AGAIN


async def test_a_type_that_was_enabled_while_its_job_was_being_held_is_not_missed() -> None:
    seen = await job({ROUTE: [Route(held="disabled"), Route()], CALL: [DONE]})
    assert (seen.states, seen.took < timedelta(seconds=1)) == ([HELD, PROCESSING, COMPLETE], True)


async def test_a_held_job_is_cancelled() -> None:
    held = [Route(held="disabled")] * 2
    seen = await job({ROUTE: held, PASS_ON: [Left(left=0)]}, WhenIn(HELD, "cancel", ANN))
    assert seen.states == [HELD, CANCELLED]


async def test_a_page_that_drops_repeats_is_called_again_with_the_same_key() -> None:
    policy = Policy(kind="dedupe", window=timedelta(hours=2))
    seen = await job({CALL: [InDoubt("reset"), WorkerLost(), DONE]}, route=Route(policy=policy))
    assert (seen.states, seen.calls(CALL)) == ([PROCESSING, COMPLETE], 3)
    assert len([key for key in seen.keys if "call-page" in key]) == 1


async def test_a_page_that_can_be_asked_is_asked_and_not_called_again() -> None:
    policy = Policy(kind="lookup", visibility_delay=timedelta(seconds=5))
    seen = await job({CALL: [InDoubt("reset")], FIND_CALL: [None, DONE]}, route=Route(policy=policy))
    assert (seen.states, seen.calls(CALL), seen.calls(FIND_CALL)) == ([PROCESSING, COMPLETE], 1, 2)


async def test_a_page_that_may_be_called_twice_is() -> None:
    seen = await job({CALL: [InDoubt("answered 500"), DONE]}, route=Route(policy=Policy(kind="repeat")))
    assert (seen.states, seen.calls(CALL)) == ([PROCESSING, COMPLETE], 2)


IT_IS_THERE = Resolution(
    effect="call-page", outcome=EffectStatus.DONE, receipt={"status": 200}, by="ann", note="it is there"
)


async def test_a_job_without_a_look_up_waits_for_a_person_to_resolve_it() -> None:
    seen = await job({CALL: [InDoubt("reset")], ADVANCE: [Family()]}, WhenParked("resolve", IT_IS_THERE))
    assert (seen.states, seen.calls(CALL)) == ([PROCESSING, COMPLETE], 1)


async def test_a_job_that_a_person_reports_as_done_leads_the_children_that_are_on_record() -> None:
    looks = [family(waiting=3), family(open=3, started=3), family(done=2, failed=1)]
    seen = await job({CALL: [InDoubt("the answer was lost")], ADVANCE: looks}, WhenParked("resolve", IT_IS_THERE))
    assert (seen.states, seen.calls(CALL), seen.calls(ADVANCE)) == ([PROCESSING, FAILED], 1, 3)


async def test_a_job_whose_tries_are_used_up_fails() -> None:
    again: dict[Any, list[Any]] = {ROUTE: [Route(tries=2)] * 2, CALL: [NotDone("refused")] * 2}
    seen = await job(again)
    assert (seen.states, seen.calls(CALL)) == ([PROCESSING, FAILED], 2)


async def test_a_job_whose_tries_were_used_up_by_a_disabled_type_waits_for_it() -> None:
    routes = [Route(tries=1), Route(held="disabled"), Route(held="disabled"), Route(tries=1)]
    seen = await job({ROUTE: routes, CALL: [NotDone("disabled"), DONE]}, WhenIn(HELD, "type_changed"))
    assert seen.states == [PROCESSING, HELD, PROCESSING, COMPLETE]


async def test_a_page_that_is_at_work_is_asked_until_it_is_done() -> None:
    answer = Answer(status=202, then=Then.FOLLOW, location="/jobs/1")
    seen = await job({CALL: [answer], FOLLOW: [WorkerLost(), NotDone("at work"), DONE]})
    assert (seen.states, seen.calls(FOLLOW)) == ([PROCESSING, COMPLETE], 3)
    assert {each.location for each in seen.inputs(FOLLOW)} == {"/jobs/1"}


async def test_a_page_that_is_at_work_for_too_long_fails_the_job() -> None:
    answer = Answer(status=202, then=Then.FOLLOW, location="/jobs/1")
    busy = [NotDone("at work", retry_after=timedelta(minutes=50))] * 3
    seen = await job({CALL: [answer], FOLLOW: busy}, route=Route(within=timedelta(hours=1)))
    assert seen.states == [PROCESSING, FAILED]
    assert timedelta(hours=1) <= seen.took <= timedelta(hours=1) + LAST_LOOK + timedelta(seconds=5)


@pytest.mark.parametrize("effect", [FOLLOW, LIST])
async def test_a_refusal_of_a_page_that_is_only_asked_leaves_no_doubt_of_a_question_whose_worker_was_killed(
    effect: Any,
) -> None:
    script: dict[Any, list[Any]] = {CALL: [LISTED], ADVANCE: [family(next_page="/x")] * 9}
    if effect is FOLLOW:
        script = {CALL: [Answer(status=202, then=Then.FOLLOW, location="/jobs/1")]}
    seen = await job(script | {effect: [WorkerLost(), *[Refused("answered 422")] * 2]})
    [status] = [view.status for key, view in seen.effects.items() if f"/{effect.name}" in key]
    assert (seen.states, status) == ([PROCESSING, FAILED], EffectStatus.REFUSED)


CALLS_BACK = Answer(status=202, then=Then.CALLBACK)


@pytest.mark.parametrize(("ok", "end"), [(True, COMPLETE), (False, FAILED)])
async def test_a_page_that_is_polled_and_calls_back_ends_its_job_as_the_callback_says(ok: bool, end: Progress) -> None:
    answer = Answer(status=202, then=Then.FOLLOW, location="/jobs/1")
    said = At(timedelta(minutes=2), "called_back", CalledBack(ok=ok))
    seen = await job({CALL: [answer], FOLLOW: [CALLS_BACK]}, said)
    assert seen.states == [PROCESSING, end]
    assert timedelta(minutes=2) <= seen.took < timedelta(minutes=3)


@pytest.mark.parametrize(
    "moment",
    [
        pytest.param(lambda *said: At(timedelta(seconds=0), *said), id="before its run begins"),
        pytest.param(lambda *said: At(timedelta(seconds=1), *said), id="before the answer to its call"),
        pytest.param(lambda *said: At(timedelta(minutes=2), *said), id="after it"),
    ],
)
@pytest.mark.parametrize(("ok", "end"), [(True, COMPLETE), (False, FAILED)])
async def test_a_page_that_calls_back_says_how_its_job_ended(moment: Any, ok: bool, end: Progress) -> None:
    said = moment("called_back", CalledBack(ok=ok))
    route = Route(callback=True)
    seen = await job({CALL: [After(timedelta(seconds=5), CALLS_BACK)]}, said, route=route, renew_at_every_wait=True)
    assert seen.states == [PROCESSING, end]
    assert (seen.calls(CALL), seen.took < timedelta(minutes=3)) == (1, True)


@pytest.mark.parametrize(("ok", "end"), [(True, COMPLETE), (False, FAILED)])
async def test_a_call_whose_answer_is_lost_ends_as_its_callback_says(ok: bool, end: Progress) -> None:
    said = WhenParked("called_back", CalledBack(ok=ok))
    lost: dict[Any, list[Any]] = {CALL: [InDoubt("the answer was lost")], ADVANCE: [Family()]}
    seen = await job(lost, said, route=Route(callback=True))
    assert (seen.states, seen.calls(CALL), seen.unused) == ([PROCESSING, end], 1, {})


async def test_a_call_that_is_confirmed_by_its_callback_leads_the_children_that_are_on_record() -> None:
    looks = [family(waiting=3), family(open=3, started=3), family(done=2, failed=1)]
    lost: dict[Any, list[Any]] = {CALL: [InDoubt("the answer was lost")], ADVANCE: looks}
    seen = await job(lost, WhenParked("called_back", CalledBack(ok=True)), route=Route(callback=True))
    assert (seen.states, seen.calls(CALL), seen.calls(ADVANCE)) == ([PROCESSING, FAILED], 1, 3)


async def test_a_page_that_never_calls_back_fails_its_job_in_time() -> None:
    route = Route(callback=True, within=timedelta(hours=3))
    seen = await job({CALL: [CALLS_BACK]}, route=route, renew_at_every_wait=True)
    assert seen.states == [PROCESSING, FAILED]
    assert timedelta(hours=3) <= seen.took < timedelta(hours=3) + timedelta(seconds=5)


@pytest.mark.parametrize("renewed", [False, True])
async def test_children_are_led_to_their_end_and_nothing_is_done_again_in_a_new_run(renewed: bool) -> None:
    """They are looked at when they have moved, and in each new run; more are listed when few of them wait."""
    times = 2 if renewed else 1
    looks = [
        *[family(waiting=60, open=50, next_page="/further")] * times,
        *[family(waiting=10, open=50, done=50, next_page="/further")] * times,
        *[family(waiting=20, open=50, done=50, page=2)] * times,
        *[family(waiting=0, open=20, done=100, page=2)] * times,
        family(done=120, page=2),
    ]
    script: dict[Any, list[Any]] = {CALL: [LISTED], ADVANCE: looks, LIST: [looks[-2]]}
    woken = [At(timedelta(minutes=n), WOKEN) for n in (1, 2, 3)]
    seen = await job(script, *woken, renew_at_every_wait=renewed)
    assert (seen.states, seen.runs > 1) == ([PROCESSING, COMPLETE], renewed)
    assert (seen.calls(CALL), seen.calls(LIST), seen.calls(ROUTE)) == (1, 1, 1)
    assert (seen.unused, seen.took < timedelta(minutes=4)) == ({}, True)
    assert seen.status.how_far == "120 done, 0 failed, 0 left of 120"


async def test_a_look_that_starts_as_many_as_one_look_can_is_followed_by_another_at_once() -> None:
    looks = [
        family(waiting=1500, open=500, window=2000, started=500),
        family(waiting=1000, open=1000, window=2000, started=500),
        family(done=2000, window=2000),
    ]
    seen = await job({CALL: [LISTED], ADVANCE: looks})
    assert (seen.states, seen.unused, seen.took < SOON) == ([PROCESSING, COMPLETE], {}, True)


async def test_children_that_move_while_they_are_looked_at_are_looked_at_again() -> None:
    looks = [After(timedelta(seconds=2), family(open=3)), family(done=3)]
    seen = await job({CALL: [LISTED], ADVANCE: looks}, At(timedelta(seconds=1), WOKEN))
    assert (seen.states, seen.unused, seen.took < timedelta(minutes=1)) == ([PROCESSING, COMPLETE], {}, True)


async def test_a_word_of_children_that_is_lost_is_not_relied_upon() -> None:
    seen = await job({CALL: [LISTED], ADVANCE: [family(open=3), family(done=3)]})
    assert seen.states == [PROCESSING, COMPLETE]
    assert LOOK_AGAIN <= seen.took < LOOK_AGAIN + timedelta(seconds=5)


@pytest.mark.parametrize(
    ("tolerates", "end"), [pytest.param(0, FAILED), pytest.param(2, COMPLETE), pytest.param(None, COMPLETE)]
)
async def test_a_family_ends_by_its_rule(tolerates: int | None, end: Progress) -> None:
    looks = [family(done=1, failed=1, open=1, tolerates=tolerates), family(done=1, failed=2, tolerates=tolerates)]
    seen = await job({CALL: [LISTED], ADVANCE: looks}, At(timedelta(seconds=30), WOKEN))
    assert seen.states == [PROCESSING, end]


async def test_a_page_of_children_that_can_not_be_had_fails_it_once_those_that_are_known_have_ended() -> None:
    three, one, none = family(open=3), family(open=1, done=2), family(done=3)
    looks = [each.model_copy(update={"next_page": "/x"}) for each in (three, three, one, none)]
    script: dict[Any, list[Any]] = {CALL: [LISTED], ADVANCE: looks, LIST: [Refused("answered 404")]}
    woken = [At(timedelta(minutes=1), WOKEN), At(timedelta(minutes=2), WOKEN)]
    seen = await job(script, *woken)
    assert (seen.states, seen.calls(LIST), seen.unused) == ([PROCESSING, FAILED], 1, {})
    assert timedelta(minutes=2) <= seen.took < timedelta(minutes=3)


async def test_a_cancel_is_handed_on_to_all_children() -> None:
    parts = [Left(left=700), Left(left=200), Left(left=200), Left(left=0)]
    script: dict[Any, list[Any]] = {CALL: [LISTED], ADVANCE: [family(open=3)], PASS_ON: parts}
    seen = await job(script, At(timedelta(seconds=30), "cancel", ANN))
    assert (seen.states, seen.unused) == ([PROCESSING, CANCELLED], {})
    assert {(each.by, each.note) for each in seen.inputs(PASS_ON)} == {("ann", "not today")}


async def test_a_cancel_in_the_middle_of_a_call_lets_the_call_end_and_starts_no_children() -> None:
    script: dict[Any, list[Any]] = {CALL: [After(timedelta(seconds=20), LISTED)], PASS_ON: [Left(left=0)]}
    seen = await job(script, At(timedelta(seconds=10), "cancel", ANN))
    assert (seen.states, seen.calls(ADVANCE)) == ([PROCESSING, CANCELLED], 0)


@pytest.mark.parametrize("renewed", [False, True])
async def test_in_a_new_round_its_page_is_not_called_and_what_failed_is_given_another_try_once(renewed: bool) -> None:
    script: dict[Any, list[Any]] = {
        AGAIN: [Left(left=1000), Left(left=0)],
        ADVANCE: [family(open=3), family(done=2, open=1), family(done=2, failed=1)],
    }
    woken = [At(timedelta(minutes=1), WOKEN), At(timedelta(minutes=2), WOKEN)]
    seen = await job(script, *woken, route=Route(listed=True), renew_at_every_wait=renewed)
    assert (seen.states, seen.unused, seen.runs > 1) == ([PROCESSING, FAILED], {}, renewed)
    assert (seen.calls(CALL), seen.calls(CALL_INLINE)) == (0, 0)


async def test_a_worker_lost_while_children_are_looked_at_looks_again() -> None:
    script: dict[Any, list[Any]] = {
        CALL: [LISTED],
        ADVANCE: [WorkerLost(), family(open=3), InDoubt("no answer"), family(done=3)],
    }
    seen = await job(script, At(timedelta(minutes=1), WOKEN), WhenBlocked(WOKEN))
    assert (seen.states, seen.unused, seen.took < LOOK_AGAIN) == ([PROCESSING, COMPLETE], {}, True)


def test_a_family_says_how_far_it_is() -> None:
    told = family(done=3, failed=1, open=2, waiting=4, cancelled=1, next_page="/x")
    assert str(told) == "3 done, 1 failed, 1 cancelled, 6 left of 11 and more that are not listed yet"


async def test_how_it_is_called_is_on_record_with_its_call() -> None:
    """A new run that asked again might take the other effect, whose key is another: the page would be called twice."""
    routes = [Route(held="disabled"), Route(held="disabled"), Route(timeout=timedelta(seconds=40))]
    script: dict[Any, list[Any]] = {ROUTE: routes, CALL: [InDoubt("reset")]}
    seen = await job(script, At(timedelta(minutes=3), "type_changed"), At(timedelta(minutes=4), "type_changed"))
    assert (seen.states, seen.calls(ROUTE)) == ([HELD, PROCESSING], 3)
    assert Route.model_validate(seen.snapshot["route"]) == routes[-1]
    called = await job(
        {ROUTE: [Route()], CALL: [NotDone("busy"), DONE]},
        At(timedelta(seconds=0.5), "type_changed"),
        renew_at_every_wait=True,
    )
    assert (called.end, called.calls(ROUTE), called.runs > 1) == (COMPLETE, 1, True)
