"""Where old builds have open lifecycles and no workers, nobody reads that workers are behind."""

from __future__ import annotations

from typing import Any

import pytest

from perdure._operations.problems import problems

CALM: dict[str, Any] = {
    "open": [],
    "in_doubt": [],
    "outbox": {"waiting": 0, "lag_seconds": 0.0, "rejected": 0, "rows_behind": 0, "refused_row": None},
    "findings": [],
    "reconciliation": None,
}
QUEUE = {
    "task_queue": "q",
    "kind": "workflow",
    "backlog": 3,
    "backlog_seconds": 40.0,
    "pollers": ["vm-1"],
    "error": None,
}
WAIT = "3 tasks wait in q (workflow), the oldest for 40.0 s"


@pytest.mark.parametrize(
    ("workers", "found"),
    [
        (0, ["2 open lifecycles need build shop:1, and no worker of it polls", WAIT]),
        (1, [f"{WAIT}: its workers are behind"]),
    ],
)
def test_a_build_without_workers_is_named_as_the_reason(workers: int, found: list[str]) -> None:
    build = {"deployment": "shop", "build": "1", "open": 2, "workers": workers, "must_stay": True}
    assert [each.sentence for each in problems(CALM, [QUEUE], [build])] == found
