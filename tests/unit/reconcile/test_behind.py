"""Which mirrors a reconciliation lets the workflow write again."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from perdure._reconcile.behind import Shown
from perdure._wire.status import EffectProgress, LifecycleStatus
from perdure.contracts import EffectStatus

IN_DOUBT = "charge is in doubt: no answer"
AT_WORK, PARKED = (
    EffectProgress(
        effect="charge",
        key="order/a/charge",
        status=EffectStatus.IN_DOUBT,
        attempts=1,
        parked=parked,
        why="no answer",
        next_at=None,
    )
    for parked in (False, True)
)


def status(**more: Any) -> LifecycleStatus:
    """Of a workflow whose newest write has version 5."""
    known: dict[str, Any] = {
        "lifecycle": "order",
        "id": "a",
        "generation": 0,
        "state": "paid",
        "version": 5,
        "since": datetime.now(UTC),
        "final": False,
        "attention": None,
        "waits_for_retry": False,
        "effects": [],
    }
    return LifecycleStatus(**(known | more))


@pytest.mark.parametrize(
    ("shown", "present"),
    [
        (Shown("paid", None, 4), {}),
        (Shown("paid", None, 4), {"effects": [AT_WORK]}),
        (Shown("new", None, 5), {}),
        (Shown("new", None, 6), {}),
        (Shown("new", None, 6), {"effects": [PARKED], "attention": IN_DOUBT}),
        (Shown("paid", IN_DOUBT, 6), {}),
        (Shown("paid", "scan is done, and its receipt of 3 bytes does not fit", 6), {}),
        (Shown("paid", None, 6), {"attention": "the card was refused"}),
    ],
)
def test_a_mirror_that_shows_something_else_is_written_again(shown: Shown, present: dict[str, Any]) -> None:
    assert shown.differs_from(status(**present))


@pytest.mark.parametrize(
    ("shown", "present"),
    [
        (Shown("paid", None, 5), {}),
        (Shown("paid", None, 6), {}),
        (Shown("new", None, 6), {"effects": [AT_WORK]}),  # the attempt may have entered that state
        (Shown(None, None, 6), {}),  # a state that no code declares is reported
        (Shown("paid", "a message was rejected: too large", 6), {}),  # the relay's reason
        (Shown("paid", "mail is in doubt: no answer", 6), {"effects": [PARKED], "attention": IN_DOUBT}),  # one of two
    ],
)
def test_one_that_shows_the_same_or_may_be_ahead_is_left_alone(shown: Shown, present: dict[str, Any]) -> None:
    assert not shown.differs_from(status(**present))
