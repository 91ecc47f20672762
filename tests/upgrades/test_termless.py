"""Runs that a release before 0.2.0 began carry no terms: a change of contract counts from their first event on."""

from __future__ import annotations

from pathlib import Path

import pytest
from temporalio.client import WorkflowHistory

from tests.replay.record import RELEASES
from tests.upgrades import termless
from tests.upgrades.ground import follows
from tests.upgrades.rows import row


def _history(release: str, name: str) -> WorkflowHistory:
    file = Path(RELEASES / release / "histories" / f"{name}.1.json")
    return WorkflowHistory.from_json(f"scope/{name.partition('-')[0]}/x", file.read_text())


@row("policy, `maximum` or inline, of runs that a release before 0.2.0 began")
@pytest.mark.parametrize(
    ("name", "edition"),
    [
        ("escalate-in-doubt", termless.Repeating),
        ("escalate-straight", termless.Inline),
        ("lookup-not-done", termless.GivingUp),
    ],
    ids=["policy", "inline", "maximum"],
)
async def test_a_run_that_carries_no_terms_can_not_be_followed_after_a_change_of_contract(
    name: str, edition: type
) -> None:
    assert await follows(edition, [_history("0.2.0", name)])
    assert not await follows(edition, [_history("0.1.0", name)])
