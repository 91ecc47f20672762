"""The tables of a first start and of the days after it: each figure and each drill is on its page."""

from __future__ import annotations

import datetime
from pathlib import Path

import pytest

from bench.day2 import __main__ as days
from bench.day2.drills import drills
from bench.failover.judge import Judged
from bench.marked import replaced
from bench.up.idle import Idle
from bench.up.report import markdown, rows, sentences
from bench.up.steps import Measured

DOCS = Path(__file__).parents[2] / "docs"
PERDURE = Measured(
    {"packages": 20.04, "later start": 4.0},
    build=300.0,
    idle=Idle({"Temporal": 200_000_000, "worker": 80_000_000, "PostgreSQL": 1}, {"Temporal": 3.25, "worker": 1.0}, 33),
)
PEER = Measured({"packages": 8.0}, idle=Idle({"worker": 60_000_000}, {"worker": 2.0}, 4))


def test_a_first_start_is_shown_beside_that_of_others() -> None:
    found = {"Perdure": PERDURE, "DBOS": PEER}
    lines = {line[0]: line[1:] for line in rows(found)}
    assert lines["packages by pip, nothing cached"] == ["20 s", "8.0 s"]
    assert lines["memory (PSS)"] == ["280 MB", "60 MB"]
    assert lines["CPU while idle: Temporal"] == ["3.2 %", ""]
    assert lines["connections to PostgreSQL"] == ["33", "4"]
    text = sentences(found, 40.0, 1.0, datetime.date(2026, 1, 2), 60.0)
    assert "Building took 300 s of CPU" in text
    assert "| later start | 4.0 s |  |" in replaced((DOCS / "one-machine.md").read_text(), "up", markdown(found, text))


@pytest.mark.parametrize("name", [each.name for each in drills()])
def test_each_drill_is_on_the_page(name: str) -> None:
    [drill] = [each for each in drills() if each.name == name]
    line = days._cells(drill, days.Done(Judged(9, 0.2, 0.5, 8.0, 3, 2, 0, 0), ["seen"]))
    assert line[-2:] == ["3, 2 of them charged", "seen"]
    page = replaced((DOCS / "day-2.md").read_text(), "day-2", days._markdown([line], datetime.date(2026, 1, 2)))
    assert f"| {drill.what} | 0.5 s |" in page
