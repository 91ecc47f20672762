"""The answers that a chaos worker has stored are read again for the write that puts the end on record."""

from __future__ import annotations

from pathlib import Path

from perdure import Done, Expired
from perdure._wire.writes import Move, Write
from perdure.contracts.keys import Entity
from perdure.contracts.outcomes import WasRefused
from perdure.testing.exploring.answers import Answers, with_those_at_the_end
from perdure.testing.exploring.evidence import PerformResult
from tests.chaos.answers import Kept, line_of
from tests.chaos.plan import GENERATED

ENTITY = Entity(GENERATED, "33")
IN_DOUBT = WasRefused("no", True)


def end(version: int) -> Write:
    move = Move(state="ended", final=True)
    return Write(lifecycle=GENERATED, id="33", generation=0, version=version, workflow_id="s:generated/33", move=move)


def test_only_what_the_write_of_the_end_came_with_counts(tmp_path: Path) -> None:
    file = tmp_path / "answers.jsonl"
    lost: Answers = {"p1": [IN_DOUBT]}
    stands: Answers = {"p1": [Done("7")], "p2": [Expired("too late", True)]}
    file.write_text(line_of(end(5), lost, 1.0) + line_of(end(6), stands, 2.0))
    (results,) = Kept(file).at_the_end(ENTITY, 6)
    assert results == {"p1": [PerformResult(Done(None), 2.0)], "p2": [PerformResult(Expired("too late", True), 2.0)]}
    assert [each.in_doubt for each in results["p2"]] == [True]


def test_without_a_file_there_are_no_results(tmp_path: Path) -> None:
    assert not Kept(tmp_path / "none").at_the_end(ENTITY, 6)


def test_the_results_of_each_task_that_ordered_the_end_are_kept_apart(tmp_path: Path) -> None:
    file = tmp_path / "answers.jsonl"
    file.write_text(line_of(end(6), {"p1": [IN_DOUBT]}, 1.0) + line_of(end(6), {"p1": [Done("7")]}, 2.0))
    first, second = Kept(file).at_the_end(ENTITY, 6)
    assert (first, second) == ({"p1": [PerformResult(IN_DOUBT, 1.0)]}, {"p1": [PerformResult(Done(None), 2.0)]})


def test_answers_are_in_the_order_in_which_they_were_given() -> None:
    early, late = PerformResult(IN_DOUBT, 1.0), PerformResult(Done("7"), 3.0)
    at_the_end = PerformResult(Expired("too late"), 2.0)
    both = with_those_at_the_end({"p1": [early, late]}, {"p1": [at_the_end], "p2": [at_the_end]})
    assert both == {"p1": [early, at_the_end, late], "p2": [at_the_end]}
