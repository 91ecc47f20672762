"""Random writers, followers, crashes, restores and dropped months: each event comes once, or a clear error."""

from __future__ import annotations

from datetime import datetime

import pytest

from tests.following.model import Account, Broken, Event, Truth
from tests.following.run import Run

ONE, TWO = ("e", 0, datetime(2026, 1, 1).isoformat()), ("e", 1, datetime(2026, 1, 2).isoformat())


@pytest.mark.parametrize("seed", [4, 5])
async def test_each_committed_event_comes_once_and_in_order_or_a_position_is_refused(seed: int) -> None:
    run = Run(seed, steps=100)
    await run.play()
    assert run.happened["committed"]
    assert not run.happened["lost by the database"]


@pytest.mark.parametrize(
    "seed", [80000, 80002], ids=["a-writer-is-under-way-at-the-first-call", "begins-anew-elsewhere"]
)
async def test_no_earlier_mistake_of_the_check_happens_again(seed: int) -> None:
    await Run(seed, steps=150).play()


@pytest.mark.parametrize(
    ("handled", "said"),
    [
        ([ONE], "missed"),
        ([ONE, TWO, ONE], "twice"),
        ([TWO, ONE], "0 after 1"),
        ([ONE, ("e", 1, "x")], "never happened"),
    ],
)
def test_the_judge_finds_what_was_missed_repeated_disordered_or_never_happened(handled: list[Event], said: str) -> None:
    truth = Truth(events={ONE, TWO})
    Account([ONE, TWO]).judge(truth, "it", drained=True)
    with pytest.raises(Broken, match=said):
        Account(handled).judge(truth, "it", drained=True)
