"""A rehearsal: what a script says happens to a lifecycle, on a virtual clock, and is seen as it was."""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from datetime import timedelta
from enum import StrEnum
from typing import Any

import pytest
from pydantic import BaseModel
from temporalio import workflow

from perdure import (
    Attempt,
    Done,
    Effect,
    InDoubt,
    Lifecycle,
    Lookup,
    LookupContext,
    NotDone,
    OperatorRequest,
    Refused,
    Repeat,
    state,
)
from perdure.client import Resolution
from perdure.contracts import EffectStatus
from perdure.errors import InvalidInput
from perdure.testing import (
    CANCEL_WORKFLOW,
    START,
    After,
    Answered,
    At,
    Calls,
    Late,
    Message,
    NotPickedUp,
    ScriptError,
    When,
    WhenBlocked,
    WhenIn,
    WhenParked,
    WorkerLost,
    rehearse,
    server_watch,
)
from perdure.testing.server_watch import RunawayWorkflow
from tests.apps import bookings, endless
from tests.apps.bookings import Count, Counter, Marching, Open, Pace, Way
from tests.apps.contracts import INLINE, MARCH, REGULAR, Booking, March, Marched, Ticket

DO, DO_INLINE = REGULAR["lookup"], INLINE["lookup"]
FIND: Lookup[Booking, Ticket] = REGULAR["lookup"].lookup or Lookup("none")
ONE, TWO = Ticket(number=1), Ticket(number=2)
ANN = OperatorRequest(by="ann", note="try again")
DONE, NOT_DONE, REFUSED, IN_DOUBT = (
    EffectStatus.DONE,
    EffectStatus.NOT_DONE,
    EffectStatus.REFUSED,
    EffectStatus.IN_DOUBT,
)


async def test_a_call_that_was_accepted_before_the_crash_is_found_and_not_made_again() -> None:
    seen = await rehearse(bookings.LookupBooking, Booking(), {DO: [WorkerLost()], FIND: [ONE]})
    assert seen.states == [Way.DOING, Way.DONE]
    assert seen.end is Way.DONE
    assert (seen.calls(DO), seen.calls(FIND)) == (1, 1)
    assert seen.outcomes == {"lookup/1/do-lookup": [DONE]}


async def test_a_miss_that_counts_sends_again_under_the_same_key() -> None:
    seen = await rehearse(
        bookings.LookupBooking, Booking(), {DO: [WorkerLost(), TWO], FIND: [None] * 5}, allow_unused=True
    )
    assert (seen.end, seen.calls(DO)) == (Way.DONE, 2)
    assert seen.keys == ["lookup/1/do-lookup"]
    assert seen.outcomes[seen.keys[0]] == [NOT_DONE, DONE]
    assert seen.effects[seen.keys[0]].receipt == {"number": 2}


@pytest.mark.parametrize(
    ("raised", "outcome"),
    [(NotDone("busy"), NOT_DONE), (InDoubt("cut off"), IN_DOUBT), (ConnectionResetError("reset"), IN_DOUBT)],
)
async def test_an_exception_is_what_the_body_raises(raised: Exception, outcome: EffectStatus) -> None:
    seen = await rehearse(bookings.Repeat, Booking(), {REGULAR["repeat"]: [raised, ONE]})
    assert seen.outcomes == {"repeat/1/do-repeat": [outcome, DONE]}
    assert seen.states == [Way.DOING, Way.DONE]


async def test_a_run_that_does_not_reach_a_final_state_is_reported_as_waiting() -> None:
    seen = await rehearse(bookings.LookupBooking, Booking(), {DO: [Refused("unknown street"), ONE]}, allow_unused=True)
    assert (seen.states, seen.end) == ([Way.DOING, Way.FAILED], None)
    assert (seen.waits_for, seen.attention) == ("retry_now", "unknown street")
    assert seen.unused == {DO: [ONE]}
    assert seen.status.state == "failed"


@pytest.mark.parametrize("began", [False, True])
async def test_a_worker_lost_before_the_record_has_sent_nothing(began: bool) -> None:
    effect = REGULAR["escalate"]
    seen = await rehearse(
        bookings.Escalate, Booking(), {effect: [WorkerLost(before=not began), ONE]}, allow_unused=True
    )
    # with a record, nobody knows; without one, nothing can have left
    assert seen.end is (None if began else Way.DONE)
    assert (seen.calls(effect), seen.effects[seen.keys[0]].attempts) == (1, 1)
    assert seen.waits_for == ("resolve do-escalate" if began else None)
    assert seen.took >= effect.heartbeat_timeout


@pytest.mark.parametrize("began", [False, True])
async def test_an_inline_call_of_a_lost_worker_is_executed_again_and_the_fence_decides(began: bool) -> None:
    effect = INLINE["escalate"]
    seen = await rehearse(
        bookings.EscalateInline, Booking(), {effect: [WorkerLost(before=not began), ONE]}, allow_unused=True
    )
    assert seen.end is (None if began else Way.DONE)
    assert seen.calls(effect) == 1
    assert seen.took >= timedelta(seconds=5)


async def test_an_attempt_that_no_worker_takes_was_never_begun() -> None:
    seen = await rehearse(bookings.Escalate, Booking(), {REGULAR["escalate"]: [NotPickedUp(), ONE]})
    assert seen.outcomes == {"escalate/1/do-escalate": [DONE]}
    assert seen.states == [Way.DOING, Way.DONE]
    assert seen.took >= REGULAR["escalate"].schedule_to_start_timeout


async def test_progress_of_a_lost_worker_reaches_the_next_attempt() -> None:
    began_at = []

    async def march(way: March, attempt: Attempt) -> Marched:
        began_at.append(attempt.progress)
        return Marched(steps=way.steps, began_at=attempt.progress, again=0)

    seen = await rehearse(Marching, March(), {MARCH: [WorkerLost(progress=600), march]})
    assert seen.states == [Pace.MARCHING, Pace.THERE]
    assert began_at == [600]


async def test_a_late_outcome_wakes_the_parked_run() -> None:
    effect = REGULAR["escalate"]
    seen = await rehearse(bookings.Escalate, Booking(), {effect: [Late(ONE, after=timedelta(hours=1))]})
    assert seen.states == [Way.DOING, Way.DONE]
    assert seen.took == timedelta(hours=1)
    assert (seen.calls(effect), seen.outcomes[seen.keys[0]]) == (1, [DONE])


async def test_a_late_outcome_of_an_inline_call_wakes_the_parked_run() -> None:
    effect = INLINE["escalate"]
    seen = await rehearse(bookings.EscalateInline, Booking(), {effect: [Late(ONE, after=timedelta(hours=1))]})
    assert (seen.end, seen.took, seen.calls(effect)) == (Way.DONE, timedelta(hours=1), 1)


async def test_a_message_after_the_end_changes_nothing() -> None:
    effect = REGULAR["repeat"]
    before = asyncio.all_tasks()
    seen = await rehearse(bookings.Repeat, Booking(), {effect: [Late(ONE, after=timedelta(hours=1)), TWO]})
    assert (seen.end, seen.calls(effect)) == (Way.DONE, 2)
    assert seen.effects[seen.keys[0]].receipt == {"number": 2}
    await asyncio.sleep(0)
    assert asyncio.all_tasks() == before


async def test_a_call_can_take_time() -> None:
    seen = await rehearse(bookings.LookupBooking, Booking(), {DO: [After(timedelta(seconds=1.5), ONE)]})
    assert (seen.end, seen.took) == (Way.DONE, timedelta(seconds=1.5))


async def test_a_function_is_called_like_the_body() -> None:
    told: list[Any] = []

    async def body(booking: Booking, attempt: Attempt) -> Ticket:
        told.append((booking.what, attempt.key, attempt.number))
        raise ConnectionResetError

    async def answer(booking: Booking, question: LookupContext) -> Ticket | None:
        told.append((booking.what, question.key, question.attempts))
        return ONE

    seen = await rehearse(bookings.LookupBooking, Booking(what="shop"), {DO: [body], FIND: [answer]}, entity_id="e-7")
    assert told == [("shop", "lookup/e-7/do-lookup", 1)] * 2
    assert (seen.end, seen.inputs(DO)) == (Way.DONE, [Booking(what="shop")])


async def test_a_cancellation_that_a_body_itself_raises_is_an_exception_as_any_other() -> None:
    async def cancels(booking: Booking, context: Attempt | LookupContext) -> Ticket:
        inner = asyncio.create_task(asyncio.Event().wait())
        inner.cancel()
        await inner
        return ONE

    seen = await rehearse(bookings.LookupBooking, Booking(), {DO: [cancels], FIND: [cancels, ONE]})
    assert (seen.calls(DO), seen.calls(FIND), seen.end) == (1, 2, Way.DONE)
    assert seen.outcomes == {"lookup/1/do-lookup": [DONE]}


@pytest.mark.parametrize(("lifecycle", "effect"), [(bookings.LookupBooking, DO), (bookings.LookupInline, DO_INLINE)])
async def test_a_call_past_the_end_of_the_script_is_named(lifecycle: Any, effect: Any) -> None:
    with pytest.raises(ScriptError) as caught:
        await rehearse(lifecycle, Booking(), {effect: [NotDone("busy")]}, entity_id="e-7")
    for part in (repr(effect), f"/e-7/{effect.name}'", "attempt 2"):
        assert part in str(caught.value)


async def test_a_look_up_past_the_end_of_the_script_is_named() -> None:
    with pytest.raises(ScriptError, match=r"Lookup.'find-booking'.*key 'lookup/1/do-lookup'"):
        await rehearse(bookings.LookupBooking, Booking(), {DO: [WorkerLost()]})


@pytest.mark.parametrize(
    ("script", "why"),
    [
        ({REGULAR["dedupe"]: [ONE]}, "Effect.'do-dedupe'. is not among its contracts"),
        ({DO: [Marched(steps=1, began_at=1, again=1)]}, "entry 1: Marched"),
        ({DO: [ONE, None]}, "entry 2: None is no receipt"),
        ({FIND: [After(timedelta(seconds=1), "4Q")]}, "entry 1: '4Q' is no receipt"),
        ({DO: [Late(Late(ONE, timedelta(seconds=1)), timedelta(seconds=1))]}, "Late can't hold"),
    ],
)
async def test_a_script_that_can_not_happen_is_refused(script: dict[Any, list[Any]], why: str) -> None:
    with pytest.raises(ScriptError, match=why):
        await rehearse(bookings.LookupBooking, Booking(), script)


async def test_an_inline_call_can_not_miss_its_worker() -> None:
    with pytest.raises(ScriptError, match="runs inline"):
        await rehearse(bookings.LookupInline, Booking(), {DO_INLINE: [NotPickedUp()]})


LIE: Any = {"what": 1}


async def test_an_input_that_does_not_fit_is_refused() -> None:
    with pytest.raises(InvalidInput, match="lookup: the input does not fit"):
        await rehearse(bookings.LookupBooking, LIE, {DO: [ONE]})


@pytest.mark.parametrize("directly", [False, True])
async def test_it_may_be_started_past_perdure(directly: bool) -> None:
    seen = await rehearse(bookings.LookupBooking, Booking(), {DO: [NotDone("busy"), ONE]}, started_directly=directly)
    assert (seen.states, seen.outcomes[seen.keys[0]]) == ([Way.DOING, Way.DONE], [NOT_DONE, DONE])


class Nap(StrEnum):
    AWAKE = "awake"
    RESTED = state("rested", final=True)


KNOCK = Effect[str, int]("knock", timeout=timedelta(seconds=1), doubt=Repeat())


@workflow.defn(name="sleeper")
class Sleeper(Lifecycle[str, Nap]):
    """Sleeps in every way, and knocks at two doors at once."""

    effects = (KNOCK,)

    @workflow.run
    async def run(self, name: str) -> None:
        await asyncio.sleep(3600)
        await self.wait_until(workflow.now() + timedelta(days=30))
        left, right = await asyncio.gather(*(self.perform(KNOCK, name, suffix=door) for door in ("left", "right")))
        assert isinstance(left, Done)
        assert isinstance(right, Done)
        await self.enter(Nap.RESTED, why=f"{left.receipt} {right.receipt}")


async def test_pauses_and_sleeps_take_no_time() -> None:
    seen = await rehearse(Sleeper, "x", {KNOCK: [NotDone("away"), 1, 2]})  # it would take a month
    assert (seen.end, seen.took > timedelta(days=30, hours=1)) == (Nap.RESTED, True)
    assert seen.keys == ["sleeper/1/knock/left", "sleeper/1/knock/right"]
    assert [seen.outcomes[key] for key in seen.keys] == [[NOT_DONE, DONE], [DONE]]


async def test_a_rehearsal_takes_milliseconds() -> None:
    """Of the processor, so that it does not matter what else the machine does."""
    times = []
    for _ in range(10):
        began = time.thread_time()
        await rehearse(bookings.LookupBooking, Booking(), {DO: [WorkerLost()], FIND: [ONE]})
        times.append(time.thread_time() - began)
    assert min(times) < 0.05


class Broken(Exception):
    """A bug."""


@workflow.defn(name="buggy")
class Buggy(Lifecycle[str, Nap]):
    """Raises what it is told."""

    @workflow.run
    async def run(self, where: str) -> None:
        if where == "run":
            raise BUG
        await self.wait_for(lambda: False)

    @workflow.signal
    async def poke(self) -> None:
        raise BUG

    @workflow.update
    async def push(self) -> None:
        raise BUG


BUG = Broken("a bug")


@pytest.mark.parametrize("where", ["run", "poke", "push"])
async def test_a_bug_in_workflow_code_is_raised_as_it_is(where: str) -> None:
    with pytest.raises(Broken) as caught:
        await rehearse(Buggy, where, {}, messages=[] if where == "run" else [At(timedelta(minutes=1), where)])
    assert caught.value is BUG


async def test_a_loop_that_never_waits_ends_the_rehearsal_and_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_watch, "LONGEST", 0.5)
    with pytest.raises(
        RunawayWorkflow, match=r"too long without waiting(.|\n)*endless\.py(.|\n)*while not await self\.wait_for"
    ):
        await rehearse(endless.Endless, "x", {})


@workflow.defn(name="stubborn")
class Stubborn(Lifecycle[str, Nap]):
    """Its loop goes on after the first interruption, as one does that interrupts a finalizer."""

    @workflow.run
    async def run(self, given: str) -> None:
        with suppress(BaseException):
            while not await self.wait_for(lambda: False, until=self.started_at):
                pass
        while not await self.wait_for(lambda: False, until=self.started_at):
            pass


async def test_a_loop_that_goes_on_after_it_was_interrupted_is_interrupted_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(server_watch, "LONGEST", 0.5)
    began = time.process_time()
    with pytest.raises(RunawayWorkflow, match="too long without waiting"):
        await rehearse(Stubborn, "x", {})
    assert time.process_time() - began < 15  # the time-out of this test would end the second loop, too


async def test_calls_that_never_happened_are_an_error() -> None:
    script: Calls = {DO: [ONE, ONE, WorkerLost()], FIND: [None]}
    left = r"2 of its calls, next .*; Lookup\(.*\): 1 of its calls, next None. It stands in state 'done'"
    with pytest.raises(ScriptError, match=left):
        await rehearse(bookings.LookupBooking, Booking(), script)
    seen = await rehearse(bookings.LookupBooking, Booking(), script, allow_unused=True)
    assert {contract.name: len(entries) for contract, entries in seen.unused.items()} == {DO.name: 2, FIND.name: 1}


@workflow.defn(name="locked")
class Locked(Lifecycle[str, Nap]):
    """Its `run` is left with the lock that a handler waits for."""

    @workflow.run
    async def run(self, name: str) -> None:
        self.lock = asyncio.Lock()
        async with self.lock:
            await self.wait_for(lambda: False)

    @workflow.update
    async def end(self) -> None:
        await self.enter(Nap.RESTED)

    @workflow.update
    async def change(self) -> None:
        async with self.lock:
            await self.save()


async def test_a_workflow_that_stays_open_after_its_end_is_an_error() -> None:
    messages = [At(timedelta(seconds=1), "change"), At(timedelta(seconds=2), "end")]
    with pytest.raises(ScriptError, match="it is 'rested', and its workflow never ends: a message handler waits for"):
        await rehearse(Locked, "x", {}, messages=messages)


@pytest.mark.parametrize(
    "message",
    [
        When(lambda status: status.state == "lost", "add", 1),
        WhenIn(Open.CLOSED, "tell", "close"),
        WhenBlocked("add", 1),
    ],
    ids=["update", "signal", "blocked"],
)
async def test_a_message_whose_moment_never_comes_is_an_error(message: Message) -> None:
    messages = [At(timedelta(minutes=1), "tell", "close"), message]
    with pytest.raises(ScriptError, match=f"never happened: the message '{message.name}'. It stands in state 'closed'"):
        await rehearse(Counter, Count(), {}, messages=messages)
    seen = await rehearse(Counter, Count(), {}, messages=messages, allow_unused=True)
    assert [each.how for each in seen.answers] == ["sent", "waiting"]


class TestMessages:
    """Each comes at its moment, and its answer is kept."""

    async def test_a_message_comes_at_its_time(self) -> None:
        messages = [
            At(timedelta(minutes=3), "add", 2),
            At(timedelta(minutes=5), "tell", "close"),
            At(timedelta(minutes=4), "counted"),
        ]
        seen = await rehearse(Counter, Count(), {}, messages=messages)
        assert (seen.end, seen.took) == (Open.CLOSED, timedelta(minutes=5))
        assert seen.answers == [
            Answered("add", "completed", 2),
            Answered("tell", "sent"),
            Answered("counted", "completed", 2),
        ]

    async def test_a_message_whose_moment_never_comes_is_still_waiting(self) -> None:
        never = lambda status: status.state == "lost"  # noqa: E731
        messages = [WhenBlocked("tell", "close"), When(never, "add", 1), When(never, "tell", "renew")]
        seen = await rehearse(Counter, Count(), {}, messages=messages, allow_unused=True)
        assert [(each.name, each.how) for each in seen.answers] == [
            ("tell", "sent"),
            ("add", "waiting"),
            ("tell", "waiting"),
        ]

    async def test_messages_for_a_blocked_run_go_out_one_by_one(self) -> None:
        effect = REGULAR["escalate"]
        messages = [
            WhenBlocked("resolve", Resolution(by="ann", outcome=EffectStatus.NOT_DONE)),
            WhenBlocked("retry_now", ANN),
        ]
        script = {effect: [InDoubt("cut off"), Refused("no"), ONE]}
        seen = await rehearse(bookings.Escalate, Booking(), script, messages=messages)
        assert seen.states == [Way.DOING, Way.FAILED, Way.DOING, Way.DONE]
        assert [each.result for each in seen.answers] == ["resolved as not_done", "goes on from failed"]
        assert seen.keys == ["escalate/1/do-escalate", "escalate/1/do-escalate~1"]

    async def test_a_message_waits_until_an_effect_is_parked(self) -> None:
        effect = REGULAR["escalate"]
        said = Resolution(by="ann", outcome=EffectStatus.DONE, receipt={"number": 9})
        seen = await rehearse(
            bookings.Escalate, Booking(), {effect: [InDoubt("cut off")]}, messages=[WhenParked("resolve", said)]
        )
        assert (seen.end, seen.answers) == (Way.DONE, [Answered("resolve", "completed", "resolved as done")])
        assert seen.effects[seen.keys[0]].receipt == {"number": 9}

    async def test_a_message_in_a_state_comes_when_nothing_is_under_way(self) -> None:
        messages = [WhenIn(Way.FAILED, "retry_now", ANN), WhenIn(Way.FAILED, "cancel", ANN)]
        script = {DO: [Refused("no"), After(timedelta(seconds=1), Refused("still no"))]}
        seen = await rehearse(bookings.LookupBooking, Booking(), script, messages=messages)
        # the second is for the second time that it is there
        assert seen.states == [Way.DOING, Way.FAILED, Way.DOING, Way.FAILED, Way.CANCELLED]

    async def test_a_condition_can_hold_in_the_middle_of_an_attempt(self) -> None:
        messages = [When(lambda status: status.state == Way.DOING, "cancel", ANN)]
        script = {DO: [After(timedelta(seconds=1), NotDone("busy")), ONE]}
        seen = await rehearse(bookings.LookupBooking, Booking(), script, messages=messages, allow_unused=True)
        assert (seen.states, seen.calls(DO)) == ([Way.DOING, Way.CANCELLED], 1)
        assert seen.took == timedelta(seconds=1)

    async def test_a_refusal_gives_its_sentence(self) -> None:
        seen = await rehearse(
            bookings.LookupBooking,
            Booking(),
            {DO: [After(timedelta(seconds=1), ONE)]},
            messages=[At(timedelta(seconds=0.5), "retry_now", ANN)],
        )
        [answer] = seen.answers
        assert (answer.how, answer.why) == ("rejected", "nothing waits for a retry in state 'doing'")

    async def test_a_cancellation_through_temporal_is_a_message(self) -> None:
        seen = await rehearse(
            bookings.LookupBooking, Booking(), {DO: [Refused("no")]}, messages=[At(timedelta(hours=1), CANCEL_WORKFLOW)]
        )
        assert (seen.end, seen.took) == (Way.CANCELLED, timedelta(hours=1))

    @pytest.mark.parametrize(
        ("message", "why"),
        [
            (At(timedelta(seconds=1), "retry-now", ANN), "did you mean 'retry_now'"),
            (WhenBlocked("retry_now"), "missing a required argument"),
            (WhenBlocked("retry_now", ANN, ANN), "too many positional arguments"),
        ],
    )
    async def test_a_message_that_nobody_takes_is_refused(self, message: Any, why: str) -> None:
        with pytest.raises(ScriptError, match=why):
            await rehearse(bookings.LookupBooking, Booking(), {DO: [ONE]}, messages=[message])


RETRIES = [WhenBlocked("retry_now", ANN)] * 3
FOUND = Resolution(by="b", outcome=DONE, receipt={"number": 1})
SCRIPTS: list[tuple[str, list[Any], list[Any] | None, list[Any]]] = [
    ("lookup", [ONE], None, []),
    ("lookup", [NotDone("1"), NotDone("2"), NotDone("3"), ONE], None, []),
    ("lookup", [WorkerLost(), InDoubt("2"), ONE], [ValueError("mute"), *[None] * 20], []),
    ("lookup", [WorkerLost()], [ValueError("mute")] * 5, [WhenParked("resolve", FOUND)]),
    ("lookup", [Refused("1"), Refused("2"), ONE], None, RETRIES),
    ("repeat", [WorkerLost(), InDoubt("2"), WorkerLost(before=True), ONE], None, []),
    ("dedupe", [WorkerLost(), InDoubt("2"), ONE], None, []),
    ("escalate", [InDoubt("1"), ONE], None, [WhenParked("resolve", Resolution(by="b", outcome=NOT_DONE))]),
    ("escalate", [InDoubt("1")], None, [WhenParked("resolve", Resolution(by="b", outcome=EffectStatus.ABANDONED))]),
    ("escalate", [Late(ONE, timedelta(hours=1))], None, []),
]  # fmt: skip


class TestRenewal:
    """A lifecycle that keeps nothing in local variables does the same when it goes on in new runs all the time."""

    @pytest.mark.parametrize("tail", ["", "-inline"])
    @pytest.mark.parametrize("script", SCRIPTS, ids=[f"{number}-{each[0]}" for number, each in enumerate(SCRIPTS)])
    async def test_it_has_the_same_states_calls_and_outcomes(self, script: Any, tail: str) -> None:
        kind, entries, answers, messages = script
        lifecycle: Any
        [lifecycle] = [each for each in bookings.LIFECYCLES if workflow_name(each) == kind + tail]
        [effect] = lifecycle.effects
        play = {effect: entries} | ({effect.lookup: answers} if answers else {})
        once = await rehearse(lifecycle, Booking(), play, messages=messages, allow_unused=True)
        often = await rehearse(
            lifecycle, Booking(), play, messages=messages, renew_at_every_wait=True, allow_unused=True
        )
        assert once.runs == 1
        assert [often.states, often.end, often.outcomes, often.waits_for] == [
            once.states,
            once.end,
            once.outcomes,
            once.waits_for,
        ]
        assert often.calls(effect) == once.calls(effect)
        assert [each.result for each in often.answers] == [each.result for each in once.answers]

    async def test_it_does_go_on_in_new_runs(self) -> None:
        effect = REGULAR["repeat"]
        seen = await rehearse(
            bookings.Repeat, Booking(), {effect: [NotDone("no")] * 4 + [ONE]}, renew_at_every_wait=True
        )
        assert seen.runs == 5

    async def test_attempts_are_counted_across_runs(self) -> None:
        seen = await rehearse(Limited, "x", {THRICE: [NotDone("no")] * 3}, renew_at_every_wait=True)
        assert (seen.end, seen.calls(THRICE), seen.runs) == (Nap.RESTED, 3, 3)

    async def test_a_snapshot_is_there_and_a_local_variable_is_not(self) -> None:
        messages = [At(timedelta(minutes=number), "knock") for number in (1, 2, 3)]
        once = await rehearse(Forgetful, "x", {}, messages=messages)
        often = await rehearse(Forgetful, "x", {}, messages=messages, renew_at_every_wait=True)
        assert once.snapshot == {"kept": 3, "lost": 3}
        assert often.snapshot["kept"] == 3
        assert often.snapshot["lost"] < 3

    async def test_a_granted_retry_is_not_lost_on_the_way_to_a_new_run(self) -> None:
        seen = await rehearse(
            Patient,
            "x",
            {KNOCK: [Refused("no"), 1]},
            messages=[WhenBlocked("retry_now", ANN)],
            renew_at_every_wait=True,
        )
        assert (seen.end, seen.calls(KNOCK)) == (Nap.RESTED, 2)
        assert seen.runs > 1


def workflow_name(lifecycle: type) -> str | None:
    return workflow._Definition.must_from_class(lifecycle).name


THRICE = Effect[str, int](
    "thrice", timeout=timedelta(seconds=1), doubt=Repeat(), retry=REGULAR["repeat"].retry.__class__(maximum_attempts=3)
)


@workflow.defn(name="limited")
class Limited(Lifecycle[str, Nap]):
    """Gives up after three attempts."""

    effects = (THRICE,)

    @workflow.run
    async def run(self, name: str) -> None:
        await self.perform(THRICE, name)
        await self.enter(Nap.RESTED)


SHORT = Effect[str, int]("short", timeout=timedelta(microseconds=1), doubt=Repeat())


@workflow.defn(name="brief")
class Brief(Lifecycle[str, Nap]):
    """Performs an effect whose time is over in no time."""

    effects = (SHORT,)

    @workflow.run
    async def run(self, name: str) -> None:
        await self.perform(SHORT, name)
        await self.enter(Nap.RESTED)


async def test_the_time_of_an_attempt_does_not_pass_however_slow_the_machine_is() -> None:
    seen = await rehearse(Brief, "x", {SHORT: [1]})
    assert seen.outcomes[seen.keys[0]] == [DONE]


@workflow.defn(name="patient")
class Patient(Lifecycle[str, Nap]):
    """Waits a while before it does what it was asked for."""

    effects = (KNOCK,)

    @workflow.run
    async def run(self, name: str) -> None:
        while not isinstance(await self.perform(KNOCK, name), Done):
            await self.retry_requested()
            await self.wait_until(workflow.now() + timedelta(hours=1))
        await self.enter(Nap.RESTED)


class Memory(BaseModel):
    kept: int = 0
    lost: int = 0


@workflow.defn(name="forgetful")
class Forgetful(Lifecycle[str, Nap]):
    """Counts knocks, in its snapshot and in a local variable."""

    def __init__(self) -> None:
        self.kept = 0
        self.lost = 0
        self.knocks = 0

    def snapshot(self) -> Memory:
        return Memory(kept=self.kept + self.knocks, lost=self.lost)

    @workflow.signal
    def knock(self) -> None:
        self.knocks += 1

    @workflow.run
    async def run(self, name: str) -> None:
        self.kept = (self.restore(Memory) or Memory()).kept
        local = 0
        while self.kept < 3:
            await self.wait_for(lambda: self.knocks > 0)
            self.kept, self.knocks, local = self.kept + self.knocks, 0, local + self.knocks
        self.lost = local
        await self.enter(Nap.RESTED)


async def test_the_start_can_be_chosen() -> None:
    seen = await rehearse(bookings.LookupBooking, Booking(), {DO: [ONE]}, start=START - timedelta(days=400))
    assert seen.status.since == START - timedelta(days=400)


async def test_another_seed_places_the_pauses_elsewhere() -> None:
    script = {DO: [NotDone("busy"), ONE]}
    took = {(await rehearse(bookings.LookupBooking, Booking(), script, seed=seed)).took for seed in (1, 1, 2)}
    assert len(took) == 2
