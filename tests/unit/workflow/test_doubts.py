"""Only knowledge ends a doubt: no later attempt, expiry or new run does."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from enum import StrEnum
from typing import Any

import pytest
from pydantic import BaseModel
from temporalio import workflow

from perdure import (
    AskFirst,
    Attempt,
    Dedupe,
    Done,
    Effect,
    Escalate,
    InDoubt,
    Lifecycle,
    Lookup,
    NotDone,
    NotPerformed,
    Refused,
    Repeat,
    RetryPolicy,
    state,
)
from perdure._activity.execution import digest
from perdure._store.memory import MemoryStore
from perdure._wire.carried import CARRIED, Carried, Unsettled
from perdure._wire.known import Known
from perdure._wire.requests import Resolution
from perdure._wire.terms import terms_of
from perdure._wire.writes import EffectView, Fence, FenceOp, Move, Write
from perdure.contracts import EffectStatus
from perdure.contracts.policies import DoubtPolicy
from perdure.testing import START, After, At, Late, NotPickedUp, Rehearsal, WhenParked, WorkerLost, rehearse
from perdure.testing.script import Script
from perdure.testing.server import VirtualWorkflow
from perdure.testing.stage import Stage
from tests.deadline import DEADLINE

TWICE = RetryPolicy(initial_interval=timedelta(seconds=1), jitter=0, maximum_attempts=2)
FIND, FIND_INLINE = Lookup[str, int]("find-call"), Lookup[str, int]("find-call-inline", inline=True)


def _effect(inline: bool) -> Effect[str, int]:
    find = FIND_INLINE if inline else FIND
    return Effect[str, int](
        "call-inline" if inline else "call",
        timeout=timedelta(seconds=10),
        doubt=AskFirst(find, visibility_delay=timedelta(seconds=5), otherwise=Repeat()),
        retry=TWICE,
        inline=inline,
    )


CALL, CALL_INLINE = _effect(inline=False), _effect(inline=True)
NEXT = Effect[str, int](
    "next",
    timeout=timedelta(seconds=10),
    doubt=Repeat(),
    retry=RetryPolicy(initial_interval=timedelta(seconds=5), jitter=0),
)
POLICIES: dict[str, DoubtPolicy[str, int]] = {
    "repeat": Repeat(),
    "escalate": Escalate(),
    "dedupe": Dedupe(window=timedelta(hours=1)),
    "dedupe or repeat": Dedupe(window=timedelta(hours=1), otherwise=Repeat()),
    "narrow": Dedupe(window=timedelta(seconds=40), margin=timedelta(seconds=5)),
}
KEY = "calling/1/call"
CUT, BUSY, NO = InDoubt("cut"), NotDone("busy"), Refused("no such number")


class Way(StrEnum):
    """How far it is."""

    NEW = state("new", leads_to=("calling", "ended"))
    CALLING = "calling"
    DONE = state("done", final=True)
    ENDED = state("ended", final=True)


class Plan(BaseModel):
    """How it goes about it."""

    doubt: str = "look-up"
    lasts: float | None = None
    inline: bool = False
    then: bool = False
    beside: bool = False


class Told(BaseModel):
    """What it keeps."""

    said: str = ""


@workflow.defn(name="calling")
class Calling(Lifecycle[Plan, Way]):
    """Calls once, and keeps in its snapshot how that ended."""

    effects = (CALL, CALL_INLINE, NEXT)

    def __init__(self) -> None:
        self.said = ""

    def snapshot(self) -> Told:
        """How it ended."""
        return Told(said=self.said)

    @workflow.signal
    def hear(self) -> None:
        """Something happens."""

    @workflow.run
    async def run(self, plan: Plan) -> None:
        """Call, and perhaps do something else beside it, or after it."""
        beside = asyncio.ensure_future(self.perform(NEXT, "it")) if plan.beside else None
        await asyncio.sleep(0)
        end = await self.perform(
            CALL_INLINE if plan.inline else CALL,
            "it",
            entering=Way.CALLING,
            doubt=POLICIES.get(plan.doubt),
            expires_at=None if plan.lasts is None else self.started_at + timedelta(seconds=plan.lasts),
        )
        if beside is not None:
            await beside
        if plan.then:
            await self.perform(NEXT, "it")
        match end:
            case Done(receipt):
                self.said = f"number {receipt}"
                await self.enter(Way.DONE)
            case NotPerformed(why, in_doubt):
                self.said = f"{type(end).__name__}, {in_doubt}: {why}"
                await self.enter(Way.ENDED)


async def called(plan: Plan, *does: Any, **more: Any) -> Rehearsal[Way]:
    effect, find = (CALL_INLINE, FIND_INLINE) if plan.inline else (CALL, FIND)
    script: dict[Any, Any] = {effect: list(does), find: more.pop("finds", []), NEXT: more.pop("next", [])}
    return await rehearse(Calling, plan, script, **more, allow_unused=True)


async def goes_on(plan: Plan, carried: Carried, status: EffectStatus, *does: Any) -> str:
    """Let a run go on from what another has left, where the record was written since; what it keeps at its end."""
    contracts: dict[str, Any] = {each.name: each for each in (CALL, NEXT)}
    stage = Stage(
        contracts,
        Script(contracts, {CALL: list(does)}),
        now=lambda: temporal_client.now,
        outside=lambda happens, after: temporal_client.outside(happens, after=after),
    )
    stage.store = store = MemoryStore(stage.clock)
    temporal_client = VirtualWorkflow(
        Calling,
        [plan.model_dump(mode="json")],
        workflow_id="calling/1",
        on_activity=stage.play,
        memo={CARRIED: carried},
        start=START,
    )
    write = Write(lifecycle="calling", id="1", generation=0, version=1, workflow_id="calling/1")
    begun = Fence(op=FenceOp.BEGIN, key=KEY, effect="call", token="t1", digest=digest("it"))
    ended = begun.model_copy(update={"op": FenceOp.OUTCOME, "status": status, "receipt": 5})
    later = int((START + timedelta(hours=1)).timestamp() * 1_000_000)
    async with temporal_client, asyncio.timeout(DEADLINE):
        await store.write(write.model_copy(update={"move": Move(state="calling")}), patience=0)
        for fence in (begun, ended):
            await store.write(write.model_copy(update={"fence": fence, "version": later}), patience=0)
        await temporal_client.run()
        await stage.close()
    kept: Any = store.snapshot("calling", "1")
    return str(kept["said"])


def said(seen: Rehearsal[Way]) -> str:
    told: str = seen.snapshot["said"]
    return told


def status(seen: Rehearsal[Way]) -> EffectStatus:
    return next(iter(seen.effects.values())).status


class TestALaterNo:
    """What a later attempt ended in says nothing about one before it that is in doubt."""

    @pytest.mark.parametrize("policy", ["repeat", "dedupe or repeat"])
    async def test_giving_up_after_it_leaves_the_doubt(self, policy: str) -> None:
        seen = await called(Plan(doubt=policy), CUT, BUSY)
        assert said(seen) == "GaveUp, True: 2 attempts failed, the last: busy; an earlier attempt is in doubt"
        assert status(seen) is EffectStatus.IN_DOUBT

    async def test_where_no_attempt_is_left_a_person_is_asked_if_the_policy_says_so(self) -> None:
        seen = await called(Plan(doubt="dedupe"), CUT, BUSY)
        assert seen.waits_for == "resolve call"
        assert seen.attention == "call is in doubt: busy; an earlier attempt is in doubt"

    async def test_it_is_looked_up_where_the_other_side_can_be_asked_again(self) -> None:
        mute = [OSError("down")] * 5
        seen = await called(Plan(), CUT, BUSY, finds=[*mute, 7])
        assert (said(seen), seen.calls(CALL)) == ("number 7", 2)

    @pytest.mark.parametrize("policy", ["repeat", "dedupe"])
    async def test_an_expiry_after_it_leaves_the_doubt(self, policy: str) -> None:
        seen = await called(
            Plan(doubt=policy, lasts=20), CUT, NotDone("busy", counts=False, retry_after=timedelta(minutes=1))
        )
        assert said(seen) == "Expired, True: it was of no use any more, and in doubt"
        assert status(seen) is EffectStatus.IN_DOUBT

    @pytest.mark.parametrize("policy", ["repeat", "dedupe"])
    async def test_a_later_done_ends_the_doubt(self, policy: str) -> None:
        seen = await called(Plan(doubt=policy), WorkerLost(), 5)
        assert (said(seen), status(seen)) == ("number 5", EffectStatus.DONE)

    @pytest.mark.parametrize(
        ("policy", "in_doubt", "left"),
        [("repeat", True, EffectStatus.IN_DOUBT), ("dedupe", False, EffectStatus.REFUSED)],
    )
    async def test_a_refusal_answers_an_earlier_attempt_only_where_repeats_are_dropped(
        self, policy: str, in_doubt: bool, left: EffectStatus
    ) -> None:
        seen = await called(Plan(doubt=policy), CUT, NO, *([NO] if policy == "dedupe" else []))
        tail = "; an earlier attempt is in doubt" if in_doubt else ""
        assert (said(seen), status(seen)) == (f"WasRefused, {in_doubt}: no such number{tail}", left)

    async def test_a_person_who_says_not_done_ends_it(self) -> None:
        resolved = Resolution(effect="call", outcome=EffectStatus.NOT_DONE, by="ann", note="asked them")
        seen = await called(Plan(doubt="escalate"), CUT, BUSY, BUSY, messages=[WhenParked("resolve", resolved)])
        assert said(seen) == "GaveUp, False: 2 attempts failed, the last: busy"


class TestTheWindow:
    """`Dedupe` counts from the first attempt that is in doubt."""

    async def test_it_begins_anew_where_all_attempts_before_ended_in_a_definite_no(self) -> None:
        seen = await called(
            Plan(doubt="narrow"), NotDone("busy", counts=False, retry_after=timedelta(minutes=10)), CUT, 5
        )
        assert (said(seen), seen.calls(CALL)) == ("number 5", 3)

    async def test_it_goes_on_through_attempts_that_ended_in_a_definite_no(self) -> None:
        full = NotDone("busy", counts=False, retry_after=timedelta(seconds=12))
        seen = await called(Plan(doubt="narrow"), CUT, full, full)
        assert (seen.waits_for, seen.calls(CALL)) == ("resolve call", 3)

    async def test_an_attempt_that_is_handed_out_too_late_is_not_made(self) -> None:
        seen = await called(Plan(doubt="narrow"), CUT, NotPickedUp())
        assert (seen.waits_for, seen.calls(CALL)) == ("resolve call", 1)

    async def test_it_grows_no_longer_by_new_runs(self) -> None:
        full = NotDone("busy", counts=False, retry_after=timedelta(seconds=12))
        seen = await called(Plan(doubt="narrow"), CUT, full, full, renew_at_every_wait=True)
        assert seen.runs > 1
        assert (seen.waits_for, seen.calls(CALL)) == ("resolve call", 3)


class TestNeverMade:
    """What was never attempted uses up no retry, and is no failure."""

    @pytest.mark.parametrize("never", [NotPickedUp(), WorkerLost(before=True)])
    async def test_a_doubt_uses_up_no_retry(self, never: Any) -> None:
        seen = await called(Plan(), never, BUSY, never, never, BUSY)
        assert said(seen) == "GaveUp, False: 2 attempts failed, the last: busy"
        assert seen.calls(CALL) == 2

    async def test_an_attempt_that_no_worker_picked_up_costs_no_back_off(self) -> None:
        seen = await called(Plan(), *[NotPickedUp()] * 10, 5)
        assert (said(seen), seen.took) == ("number 5", 10 * (timedelta(minutes=5) + timedelta(seconds=1)))


class TestAnExpiry:
    """What is on record is read before an effect counts as expired."""

    async def test_a_done_effect_stays_done_in_a_later_run(self) -> None:
        seen = await called(Plan(lasts=3, then=True), 5, next=[BUSY, BUSY, 6], renew_at_every_wait=True)
        assert seen.runs > 1
        assert (said(seen), seen.calls(CALL)) == ("number 5", 1)

    @pytest.mark.parametrize("policy", [*POLICIES, "look-up"])
    async def test_an_inline_attempt_whose_worker_was_lost_is_in_doubt(self, policy: str) -> None:
        seen = await called(Plan(doubt=policy, lasts=3, inline=True), WorkerLost())
        assert said(seen) == "Expired, True: it was of no use any more, and in doubt"
        assert seen.calls(CALL_INLINE) == 1

    async def test_an_inline_attempt_that_is_lost_after_one_that_failed_is_in_doubt(self) -> None:
        seen = await called(Plan(lasts=3, inline=True), BUSY, WorkerLost())
        assert said(seen) == "Expired, True: it was of no use any more, and in doubt"

    async def test_an_outcome_recorded_between_two_runs_is_read_first(self) -> None:
        view = EffectView(status=EffectStatus.IN_DOUBT, token="t1", attempts=1)
        before = Carried(
            state="calling", unsettled={KEY: Unsettled(known=Known(effect=view, read=True), seen_at=START)}
        )
        told = await goes_on(Plan(lasts=-1), before, EffectStatus.DONE)
        assert told == "number 5"


async def test_a_call_takes_as_long_as_the_terms_in_the_history_allow() -> None:
    """A window is judged by them, and the contract of another build may have a longer time-out."""
    left: list[float] = []

    async def body(given: str, attempt: Attempt) -> int:
        left.append(attempt.remaining)
        return 6

    terms = terms_of(CALL).model_copy(update={"timeout": timedelta(seconds=4)})
    assert (
        await goes_on(Plan(), Carried(state="calling", terms={"call": terms}), EffectStatus.NOT_DONE, body)
        == "number 6"
    )
    assert [round(each) for each in left] == [4]


async def test_an_order_that_is_older_than_the_record_is_given_anew_with_a_newer_version() -> None:
    """As where another cluster took over, whose clock is behind."""
    told = await goes_on(Plan(), Carried(state="calling"), EffectStatus.NOT_DONE, 6)
    assert told == "number 6"


async def test_an_attempt_that_nobody_picked_up_does_not_take_back_what_was_entered_beside_it() -> None:
    seen = await called(Plan(beside=True), 5, next=[NotPickedUp(), 1])
    assert (said(seen), seen.states) == ("number 5", [Way.CALLING, Way.DONE])


class TestLateWords:
    """What an attempt that was taken for lost reports late reaches the run that waits for a person."""

    @pytest.mark.parametrize("late", [BUSY, NO, 5])
    async def test_no_person_is_waited_for_once_the_outcome_is_on_record(self, late: Any) -> None:
        seen = await called(Plan(doubt="escalate"), Late(late, after=timedelta(minutes=5)), 6)
        assert seen.end is not None
        assert status(seen) is not EffectStatus.IN_DOUBT


async def test_the_time_until_a_doubt_may_be_settled_goes_on_through_new_runs() -> None:
    words = [At(timedelta(seconds=1 + number / 10), "hear") for number in range(50)]
    seen = await called(
        Plan(doubt="escalate"), After(timedelta(seconds=1), CUT), messages=words, renew_at_every_wait=True
    )
    assert (seen.runs > 3, seen.waits_for) == (True, "resolve call"), "new runs in the middle of the wait"
    assert seen.took == timedelta(seconds=10), "the time-out of the call, and not the rest of it once more in each run"
