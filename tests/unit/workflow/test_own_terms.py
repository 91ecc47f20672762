"""`perform(doubt=, timeout=, retry=)`: one performance with terms of its own, in place of its contract's."""

from __future__ import annotations

from datetime import timedelta
from enum import StrEnum
from typing import Any

import pytest
from pydantic import BaseModel
from temporalio import workflow

from perdure import (
    AskFirst,
    Dedupe,
    Done,
    Effect,
    Escalate,
    InDoubt,
    Lifecycle,
    Lookup,
    NotDone,
    Repeat,
    RetryPolicy,
    state,
)
from perdure.errors import DeclarationError
from perdure.testing import WorkerLost, rehearse

FIND = Lookup[str, int]("find-own")
OTHER = Lookup[str, int]("find-other")
CALL = Effect[str, int](
    "call-own",
    timeout=timedelta(seconds=5),
    doubt=AskFirst(FIND, visibility_delay=timedelta(seconds=5)),
    retry=RetryPolicy(initial_interval=timedelta(seconds=1), jitter=0),
)


class Way(StrEnum):
    NEW = "new"
    CALLING = "calling"
    DONE = state("done", final=True)
    NO = state("no", final=True)


class Wish(BaseModel):
    doubt: str = "none"
    timeout: float | None = None
    tries: int | None = None


POLICIES: dict[str, Any] = {
    "none": None,
    "repeat": Repeat(),
    "escalate": Escalate(),
    "dedupe": Dedupe(window=timedelta(hours=1)),
    "lookup": AskFirst(FIND, visibility_delay=timedelta(seconds=60), misses=2),
    "another's": AskFirst(OTHER, visibility_delay=timedelta(seconds=60)),
    "a class": Repeat,
    "narrow": Dedupe(window=timedelta(seconds=61)),
}


@workflow.defn(name="wishing")
class Wishing(Lifecycle[Wish, Way]):
    effects = (CALL,)

    @workflow.run
    async def run(self, wish: Wish) -> None:
        end = await self.perform(
            CALL,
            "it",
            entering=Way.CALLING,
            doubt=POLICIES[wish.doubt],
            timeout=None if wish.timeout is None else timedelta(seconds=wish.timeout),
            retry=None
            if wish.tries is None
            else RetryPolicy(initial_interval=timedelta(seconds=1), maximum_attempts=wish.tries),
        )
        await self.enter(Way.DONE if isinstance(end, Done) else Way.NO)


async def test_its_own_doubt_policy_counts() -> None:
    asked = await rehearse(Wishing, Wish(), {CALL: [InDoubt("cut")], FIND: [1]})
    again = await rehearse(Wishing, Wish(doubt="repeat"), {CALL: [InDoubt("cut"), 2]})
    parked = await rehearse(Wishing, Wish(doubt="escalate"), {CALL: [InDoubt("cut")]})
    assert (asked.calls(CALL), asked.calls(FIND), again.calls(CALL), again.calls(FIND)) == (1, 1, 2, 0)
    assert parked.end is None
    assert parked.attention == "call-own is in doubt: cut"


async def test_it_counts_after_a_lost_worker_and_in_a_new_run() -> None:
    seen = await rehearse(
        Wishing,
        Wish(doubt="dedupe"),
        {CALL: [WorkerLost(), NotDone("busy"), InDoubt("cut"), 4]},
        renew_at_every_wait=True,
    )
    assert (seen.end, seen.calls(CALL), seen.calls(FIND)) == (Way.DONE, 4, 0)
    assert seen.runs > 1


async def test_the_look_up_waits_for_its_own_settle_and_misses() -> None:
    seen = await rehearse(
        Wishing, Wish(doubt="lookup"), {CALL: [InDoubt("cut"), 3], FIND: [None] * 30}, allow_unused=True
    )
    assert (seen.end, seen.calls(CALL)) == (Way.DONE, 2)
    assert seen.took > timedelta(seconds=65)


async def test_its_own_retry_counts() -> None:
    seen = await rehearse(Wishing, Wish(tries=2), {CALL: [NotDone("busy")] * 3}, allow_unused=True)
    assert (seen.end, seen.calls(CALL)) == (Way.NO, 2)


async def test_an_attempt_that_asked_nobody_uses_no_try_up() -> None:
    full = NotDone("no place", counts=False)
    seen = await rehearse(
        Wishing,
        Wish(tries=2),
        {CALL: [full, NotDone("busy"), full, full, NotDone("busy"), 4]},
        renew_at_every_wait=True,
        allow_unused=True,
    )
    assert (seen.end, seen.calls(CALL)) == (Way.NO, 5)


@pytest.mark.parametrize(
    ("wish", "why"),
    [
        (Wish(doubt="another's"), "no worker is certain to answer Lookup('find-other')"),
        (Wish(doubt="narrow"), "leaves no time for a second attempt"),
        (Wish(timeout=0), "must be more than zero"),
        (Wish(doubt="a class"), "Repeat'> is a class: it must be of type Dedupe or AskFirst or Repeat or Escalate"),
        (Wish(doubt="dedupe", timeout=3600), "leaves no time for a second attempt"),
    ],
)
async def test_terms_that_can_not_work_are_refused_before_anything_is_sent(wish: Wish, why: str) -> None:
    with pytest.raises(DeclarationError, match=why.replace("(", r"\(").replace(")", r"\)")):
        await rehearse(Wishing, wish, {CALL: [1]})
