"""`perform(confirmed_by=)`: a message from the other side confirms an effect that is in doubt."""

from __future__ import annotations

from datetime import timedelta
from enum import StrEnum
from typing import Any

import pytest
from pydantic import BaseModel
from temporalio import workflow

from perdure import AskFirst, Done, Effect, Escalate, InDoubt, Lifecycle, Lookup, NotDone, Repeat, state
from perdure._wire.status import LifecycleStatus
from perdure.errors import InvalidInput
from perdure.testing import After, At, When, WhenParked, WorkerLost, rehearse

FIND = Lookup[str, str]("find-witnessed")
ASKED = Effect[str, str](
    "call-asked",
    timeout=timedelta(seconds=5),
    doubt=AskFirst(FIND, visibility_delay=timedelta(minutes=5), every=timedelta(seconds=1)),
)
PARKED = Effect[str, str]("call-parked", timeout=timedelta(seconds=5), doubt=Escalate())
REPEATED = Effect[str, str]("call-repeated", timeout=timedelta(seconds=5), doubt=Repeat())
BY_NAME = {each.name: each for each in (ASKED, PARKED, REPEATED)}


class Way(StrEnum):
    NEW = "new"
    CALLING = "calling"
    DONE = state("done", final=True)


class Said(BaseModel):
    word: str | None = None


@workflow.defn(name="witnessed")
class Witnessed(Lifecycle[str, Way]):
    """Calls, and may be called back."""

    effects = (ASKED, PARKED, REPEATED)

    def __init__(self) -> None:
        self.said = Said()

    def snapshot(self) -> Said:
        return self.said

    @workflow.run
    async def run(self, name: str) -> None:
        early = self.said.word
        self.said = self.restore(Said) or Said()
        self.said.word = self.said.word or early
        end = await self.perform(BY_NAME[name], "it", entering=Way.CALLING, confirmed_by=lambda: self.said.word)
        assert isinstance(end, Done)
        await self.enter(Way.DONE, why=end.receipt)

    @workflow.signal
    def call_back(self, word: str) -> None:
        self.said.word = word


async def test_a_message_settles_a_parked_effect() -> None:
    for again in False, True:
        seen = await rehearse(
            Witnessed,
            PARKED.name,
            {PARKED: [InDoubt("cut")]},
            messages=[WhenParked("call_back", "thanks")],
            renew_at_every_wait=again,
        )
        [effect] = seen.effects.values()
        assert (seen.end, seen.calls(PARKED), effect.receipt, effect.why) == (
            Way.DONE,
            1,
            "thanks",
            "reported by a message",
        )


async def test_a_message_in_the_middle_of_the_call_counts_once_that_ends_in_doubt() -> None:
    for effect in BY_NAME.values():
        script: dict[Any, Any] = {effect: [After(timedelta(seconds=2), InDoubt("cut"))], FIND: [None] * 30}
        seen = await rehearse(
            Witnessed,
            effect.name,
            script,
            messages=[At(timedelta(seconds=1), "call_back", "thanks")],
            allow_unused=True,
        )
        assert (seen.end, seen.calls(effect), seen.calls(FIND)) == (Way.DONE, 1, 0)


async def test_between_two_look_ups_it_spares_those_that_would_follow() -> None:
    script: dict[Any, Any] = {ASKED: [WorkerLost()], FIND: [None] * 30}
    seen = await rehearse(
        Witnessed, ASKED.name, script, messages=[At(timedelta(minutes=1), "call_back", "thanks")], allow_unused=True
    )
    assert (seen.end, seen.calls(ASKED)) == (Way.DONE, 1)
    assert seen.took < timedelta(minutes=1) + timedelta(seconds=1)


def _in_doubt(status: LifecycleStatus) -> bool:
    return any(each.status == "in_doubt" for each in status.effects)


async def test_the_message_does_not_count_for_an_effect_that_certainly_was_not_done() -> None:
    script = {REPEATED: [NotDone("busy"), "done"]}
    seen = await rehearse(
        Witnessed, REPEATED.name, script, messages=[At(timedelta(seconds=0.1), "call_back", "thanks")]
    )
    assert (seen.calls(REPEATED), [each.receipt for each in seen.effects.values()]) == (2, ["done"])


async def test_a_pause_before_the_next_call_ends_with_the_message() -> None:
    script = {REPEATED: [InDoubt("cut"), InDoubt("cut"), InDoubt("cut"), InDoubt("cut")]}
    seen = await rehearse(
        Witnessed,
        REPEATED.name,
        script,
        messages=[When(_in_doubt, "call_back", "thanks")],
        renew_at_every_wait=True,
        allow_unused=True,
    )
    assert seen.end == Way.DONE
    assert seen.calls(REPEATED) < 4


@workflow.defn(name="mistaken")
class Mistaken(Lifecycle[str, Way]):
    """Takes the message itself for the receipt."""

    effects = (PARKED,)

    def __init__(self) -> None:
        self.said: Any = None

    @workflow.run
    async def run(self, given: str) -> None:
        await self.perform(PARKED, given, entering=Way.CALLING, confirmed_by=lambda: self.said)
        await self.enter(Way.DONE)

    @workflow.signal
    def call_back(self, said: Said) -> None:
        self.said = said


async def test_what_is_no_receipt_is_not_recorded_as_one() -> None:
    messages = [WhenParked("call_back", Said(word="thanks"))]
    with pytest.raises(InvalidInput, match="mistaken/1/call-parked: what confirmed_by returned is no receipt of it"):
        await rehearse(Mistaken, "x", {PARKED: [InDoubt("cut")]}, messages=messages)
