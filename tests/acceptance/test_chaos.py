"""A short run of the chaos: each kind of fault once, on the real Temporal server with PostgreSQL behind it.

`make chaos` does the same for minutes, with thousands of lifecycles.
"""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

from tests.chaos import report
from tests.chaos.plan import GENERATED, KINDS, SHAPES, Plan, make_plan
from tests.chaos.run import run

SEED = 322
LIFECYCLES = 130
EVERY = 0.8
"""Seconds between two faults."""


@pytest.fixture(scope="module")
def plan() -> Plan:
    """Each kind of fault once, each kind of lifecycle at least once, and random ones."""
    return make_plan(SEED, EVERY * len(SHAPES), LIFECYCLES, every=EVERY, generated=0.2)


async def test_nothing_is_lost_and_nothing_happens_twice_while_everything_is_killed_cut_and_frozen(
    plan: Plan, tmp_path: Path
) -> None:
    outcome = await run(plan, tmp_path)
    report.write(outcome, tmp_path)

    assert outcome.verdict.findings == [], report.text(outcome)
    assert Counter(each.fault.kind for each in outcome.happened) == dict.fromkeys(SHAPES, 1)
    assert {start.lifecycle for start in plan.starts} == {*KINDS, GENERATED}
    started = outcome.counts["lifecycles that others started"]
    assert outcome.verdict.ends.total() == LIFECYCLES + started > LIFECYCLES
    assert outcome.verdict.ends["rolled back"] == sum(not start.kept for start in plan.starts) > 0
    assert outcome.counts["answers of `perform` that it judged"] > 0
    judged = outcome.counts["random lifecycles that it judged"]
    assert outcome.counts["ends whose answers a worker has kept"] == judged > 0
    said = json.loads((tmp_path / "chaos.json").read_text())
    assert (said["seed"], said["verdict"]) == (SEED, "good")
    assert "Plotly.newPlot" in (tmp_path / "chaos.html").read_text()
