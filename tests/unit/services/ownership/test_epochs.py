"""Which runs a start may follow or join, by what the database may have lost."""

from __future__ import annotations

from typing import Any

import pytest
from temporalio.common import WorkflowIDConflictPolicy, WorkflowIDReusePolicy

from perdure._services.ownership.epochs import start_policies

ROW = {"generation": 0, "again": False, "epoch": 0, "newest_epoch": 0}


@pytest.mark.parametrize(
    ("changed", "may_follow", "may_join"),
    [
        ({}, False, True),
        ({"epoch": None}, False, True),
        ({"again": True}, True, True),
        ({"generation": 1}, True, False),
        ({"newest_epoch": 5}, True, False),
        ({"epoch": 5, "newest_epoch": 5}, False, False),
    ],
    ids=[
        *("a first start", "no entity", "started again", "restarted", "a run may have ended in lost commits"),
        "its id may have been another entity's",
    ],
)
def test_a_start_follows_a_closed_run_or_joins_an_open_one_only_if_that_may_be_its_own(
    changed: dict[str, Any], may_follow: bool, may_join: bool
) -> None:
    row: Any = ROW | changed
    reuse, conflict = start_policies(row)
    assert (reuse is WorkflowIDReusePolicy.ALLOW_DUPLICATE) is may_follow
    assert (reuse is WorkflowIDReusePolicy.REJECT_DUPLICATE) is not may_follow
    assert (conflict is WorkflowIDConflictPolicy.USE_EXISTING) is may_join
    assert (conflict is WorkflowIDConflictPolicy.FAIL) is not may_join
