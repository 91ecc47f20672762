"""The judge finds a doubt that a broken product forgets, and no other one."""

from __future__ import annotations

from typing import Any

import pytest

from perdure._workflow.ledger import Ledger
from perdure._workflow.recorder import Recorder
from perdure.testing.exploring.explorer import of_random_lifecycles
from perdure.testing.exploring.programs import Program
from perdure.testing.exploring.scenario import Event, Fault, Scenario

UNKNOWN = Scenario(
    seed=1164,
    given=Program(steps=[["until", 38], ["perform", "escalate-inline", "p1", {}]]),
    calls={"escalate-inline": ["killed after"]},
    events=(Event(38.335, "cancel"),),
    builds=(0,),
)
"""A workflow task is lost in the middle of an attempt, and the next task ends the entity without that effect."""
ANSWERED_AND_LOST = Scenario(
    seed=7,
    given=Program(steps=[["until", 38], ["perform", "dedupe", "p1", {"expires": 3}]]),
    faults=(Fault("before the commit", 3, "kill", 12.0),),
    events=(Event(0.0, "restore", 6.0), Event(38.3, "cancel")),
    builds=(0,),
)
"""A workflow task tells the author of a doubt and is lost before it writes the end; the next task takes another way."""
LEFT = Scenario(
    seed=3100719,
    given=Program(steps=[["group", [[["until", 13]], [["perform", "escalate-inline", "p2", {}]]]]]),
    calls={"escalate-inline": ["lost after"]},
    events=(Event(3.279, "cancel through Temporal"),),
    builds=(0,),
    renews=1,
)
"""A cancel ends a run that a doubt was handed to."""


def shown(scenario: Scenario) -> list[str]:
    return [each.kind for each in of_random_lifecycles().play(scenario)]


@pytest.fixture
def ends_whatever_is_on_record(monkeypatch: pytest.MonkeyPatch) -> None:
    """The write of a final state does not name the effects that its run has dealt with."""
    plain = Recorder.move_to

    def move_to(self: Recorder, *args: Any) -> Any:
        return plain(self, *args).model_copy(update={"told": None})

    monkeypatch.setattr(Recorder, "move_to", move_to)


@pytest.fixture
def settles_nothing(monkeypatch: pytest.MonkeyPatch, ends_whatever_is_on_record: None) -> None:
    """Nor does a run settle what the one before it had in doubt."""
    monkeypatch.setattr(Ledger, "doubts_left", [])


@pytest.mark.parametrize("scenario", [UNKNOWN, ANSWERED_AND_LOST, LEFT], ids=["unknown", "answered and lost", "left"])
def test_where_no_doubt_is_forgotten_none_is_found(scenario: Scenario) -> None:
    assert shown(scenario) == []


@pytest.mark.usefixtures("ends_whatever_is_on_record")
def test_a_doubt_that_the_run_does_not_know_of_is_found() -> None:
    assert shown(UNKNOWN) == ["doubt forgotten"]


@pytest.mark.usefixtures("ends_whatever_is_on_record")
def test_a_doubt_is_found_that_only_a_lost_task_told_the_author_of_before_it_could_write_the_end() -> None:
    assert shown(ANSWERED_AND_LOST) == ["doubt forgotten"]


@pytest.mark.usefixtures("settles_nothing")
def test_a_doubt_that_a_run_was_handed_and_did_not_settle_is_found() -> None:
    assert shown(LEFT) == ["doubt forgotten"]
