"""The judge of the faults, their table, and one fault on real servers."""

from __future__ import annotations

import datetime
import json
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from bench.failover import __main__ as command
from bench.failover.faults import faults
from bench.failover.judge import Charge, Judged, judge
from bench.failover.lost import Recovery
from bench.failover.report import HEADING, markdown, sentence
from bench.marked import replaced

PAGE = Path(__file__).parents[2] / "docs" / "recovery.md"
FINE = Judged(10, 0.2, 0.5, 8.0, 0, 0, 0, 0)


def test_the_judge_counts_what_was_lost_repeated_and_left_out() -> None:
    acknowledged = {1: 1.0, 2: 9.0, 3: 9.5, 4: 11.0, 5: 12.0}
    charges = [Charge(1, 2.0), Charge(2, 9.5), Charge(3, 10.5), Charge(1, 11.0), Charge(4, 13.5)]
    ended = {1: 2.1, 2: 18.0, 4: 14.0, 5: 0.0}
    assert judge(10.0, acknowledged, charges, ended) == Judged(
        orders=5, again=3.5, pause=2.5, caught_up=8.0, rows_lost=1, charged_without_row=1, uncharged=1, twice=1
    )


def test_a_fault_after_which_nothing_goes_on_takes_for_ever() -> None:
    found = judge(10.0, {1: 1.0, 2: 11.0}, [Charge(1, 2.0)], {1: 2.1, 2: 0.0})
    assert (found.again, found.pause, found.uncharged) == (float("inf"), float("inf"), 1)


def test_the_page_takes_the_table_and_shows_every_fault() -> None:
    known = {each.name: each for each in faults()}
    table = markdown(known, dict.fromkeys(known, FINE), Recovery(1000, 2.0, 10.0, 1000), datetime.date(2026, 1, 2))
    page = replaced(PAGE.read_text(), "failover", table)
    assert f"| {' | '.join(HEADING)} |" in page
    assert "| one of two workers is killed | 0.2 s | 0.5 s | 8.0 s | 0 | 0 | 0 | 0 |" in page
    shown = PAGE.read_text().partition("<!-- failover -->")[2].partition("<!-- /failover -->")[0]
    assert [each.what for each in faults() if each.what not in shown] == []


def test_the_time_for_more_lifecycles_follows_from_the_pace() -> None:
    assert "(100 a second)" in sentence(Recovery(1000, 2.0, 10.0, 1000))
    assert "2.8 hours for 1,000,000 and 27.8 hours for 10,000,000" in sentence(Recovery(1000, 2.0, 10.0, 1000))


@pytest.mark.parametrize("name", ["postgres", "Worker-killed"])
def test_an_unknown_fault_is_refused_with_those_that_there_are(name: str) -> None:
    app = typer.Typer()
    app.command()(command.main)
    answer = CliRunner().invoke(app, ["--only", name], env={"COLUMNS": "300", "TERM": "dumb"})
    assert answer.exit_code == 2
    assert f"{name!r} is none of: worker-killed, host-vanished" in answer.output


def test_a_worker_that_is_killed_under_load_leaves_every_order_charged_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(command, "RESULT", tmp_path / "failover.json")
    command.main(only=["worker-killed"], pace=20.0, before=10, after=10, lifecycles=1, write=False)
    found = json.loads((tmp_path / "failover.json").read_text())["worker-killed"]
    assert found["orders"] >= 20
    assert [found[each] for each in ("rows_lost", "uncharged", "twice")] == [0, 0, 0]
