"""The judge finds a doubt that a broken product loses, and no other one."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from perdure._store import memory
from perdure._store.memory import MemoryStore
from perdure._wire.writes import Fence, Move, Verdict, Write
from perdure._workflow.ledger import Ledger
from perdure._workflow.performing import Performance
from perdure._workflow.recorder import Recorder
from perdure.contracts.keys import Entity
from perdure.contracts.states import States
from perdure.testing.exploring.evidence import Evidence
from perdure.testing.exploring.explorer import of_random_lifecycles
from perdure.testing.exploring.interpreter import Interpreter, Kept
from perdure.testing.exploring.judge import judge
from perdure.testing.exploring.programs import Place, Program
from perdure.testing.exploring.scenario import Event, Fault, Scenario

plain = memory._move
UNCALLED = Scenario(
    seed=1,
    given=Program(steps=[["perform", "escalate", "p1", {"confirmed": True}]]),
    calls={"escalate": ["lost before"]},
    events=(Event(20.0, "message"),),
)
"""The connection breaks before the other side has done anything, and a message comes."""
UNKNOWN = Scenario(
    seed=1164,
    given=Program(steps=[["race", [[["until", 38], ["perform", "escalate-inline", "p1", {}]], [["messages", 1]]]]]),
    calls={"escalate-inline": ["killed after"]},
    events=(Event(38.335, "message"),),
    builds=(0,),
)
"""A workflow task is lost in the middle of an attempt, and the next task ends the entity without that effect."""
ANSWERED_AND_LOST = Scenario(
    seed=7,
    given=Program(steps=[["race", [[["until", 38], ["perform", "dedupe", "p1", {"expires": 3}]], [["messages", 1]]]]]),
    faults=(Fault("before the commit", 3, "kill", 12.0),),
    events=(Event(0.0, "restore", 6.0), Event(38.3, "message")),
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
AFTER_END = Scenario(
    seed=2735,
    given=Program(
        steps=[["until", 10], ["perform", "dedupe-inline", "p1", {"then": "ended"}]],
        at_message=[["perform", "escalate", "pm", {}]],
    ),
    calls={"escalate": ["not done"], "dedupe-inline": ["lost after"]},
    faults=(Fault("before the commit", 2, "freeze", 10.174),),
    events=(Event(8.0, "message"), Event(13.977, "restore", 4.6), Event(14.702, "lose Temporal", 2.54)),
    renews=2,
)
"""A worker is frozen in an attempt. The record of it and Temporal are lost, and the entity ends. Then the worker
records its outcome."""
GONE = Scenario(
    seed=34401983,
    given=Program(
        steps=[["perform", "dedupe-twice", "p1", {}]], at_update=[["perform", "look-up", "p1", {"own": "long"}]]
    ),
    calls={"look-up": ["late"]},
    events=(Event(0.032, "update"), Event(3.171, "terminate", 2.0), Event(5.053, "restore", 6.0)),
    builds=(0,),
)
"""The history that holds an update is lost in the middle of the update's attempt, and then the record of that attempt.
Then its worker records the outcome."""
FORGOTTEN = Scenario(
    seed=51003,
    given=Program(
        steps=[
            [
                "within",
                4,
                [["gather", [[["perform", "look-up-on", "p51", {}]], [["perform", "escalate-inline", "p52", {}]]]]],
            ]
        ]
    ),
    calls={"escalate-inline": ["noted"]},
    faults=(Fault("after the commit", 4, "freeze", 6.0),),
    events=(Event(1.225, "restore", 12.0),),
    builds=(1, 0),
)
"""A workflow task that attempts an effect is lost, and then the record of that attempt. The task that is made again is
past the time limit, so it attempts nothing. Then the worker of the lost task records the outcome."""

STALE = Scenario(
    seed=1,
    given=Program(steps=[["perform", "escalate-inline", "p1", {"own": "long"}], ["until", 60]]),
    calls={"escalate-inline": ["not done"]},
    faults=(Fault("before the commit", 1, "freeze", 12.0),),
)
"""A worker is frozen before it records its attempt. Another one makes the attempt, which ends with a definite no."""
LATER = Scenario(
    seed=1,
    given=Program(steps=[["perform", "repeat-inline", "p1", {"varies": True, "own": "long"}], ["until", 60]]),
    calls={"repeat-inline": ["not done"]},
    faults=(Fault("before the commit", 3, "freeze", 16.0),),
    builds=(0, 1),
)
"""A worker is frozen before it begins an attempt. In the build of the next task, the effect has another input."""
WAITING = Scenario(seed=1, given=Program(steps=[["enter", "s1"], ["messages", 1]]), builds=(0,))
CONFIRMED_LATE = Scenario(
    seed=1,
    given=Program(steps=[["perform", "escalate", "p1", {}], ["messages", 2]]),
    calls={"escalate": ["frozen"]},
)
"""A person is needed for an effect in doubt until its worker, which another one has replaced, goes on."""
UPDATED = Scenario(
    seed=1, given=Program(steps=[["save"], ["until", 30]]), events=(Event(5.0, "update"),), builds=(0,), renews=1
)
"""The author's own update is acknowledged."""


def shown(scenario: Scenario) -> list[str]:
    return [each.kind for each in of_random_lifecycles().play(scenario)]


@pytest.fixture
def ends_whatever_is_on_record(monkeypatch: pytest.MonkeyPatch) -> None:
    """The write of a final state does not name the effects that its run has dealt with."""
    plain = Recorder.move_to

    def move_to(self: Recorder, *args: Any) -> Any:
        return plain(self, *args).model_copy(update={"handled_doubts": None})

    monkeypatch.setattr(Recorder, "move_to", move_to)


@pytest.fixture
def settles_nothing(monkeypatch: pytest.MonkeyPatch, ends_whatever_is_on_record: None) -> None:
    """Nor does a run settle what the one before it had in doubt."""
    monkeypatch.setattr(Ledger, "doubts_left", {})


@pytest.mark.parametrize(
    "scenario",
    [UNKNOWN, ANSWERED_AND_LOST, LEFT, AFTER_END, GONE, FORGOTTEN],
    ids=["unknown", "answered and lost", "left", "after the end", "gone", "forgotten"],
)
def test_an_open_doubt_on_record_is_no_finding(scenario: Scenario) -> None:
    assert shown(scenario) == []


@pytest.mark.usefixtures("ends_whatever_is_on_record")
def test_a_doubt_of_which_the_run_has_no_record_is_found() -> None:
    assert shown(UNKNOWN) == ["doubt forgotten"]


@pytest.mark.usefixtures("ends_whatever_is_on_record")
def test_a_doubt_of_which_the_run_has_no_record_is_found_after_a_loss_of_records() -> None:
    restored = replace(UNKNOWN, events=(Event(1.0, "restore", 2.0), *UNKNOWN.events))
    assert shown(restored) == ["doubt forgotten"]


@pytest.mark.usefixtures("ends_whatever_is_on_record")
def test_a_doubt_is_found_that_only_a_lost_task_returned_to_the_author_before_it_wrote_the_end() -> None:
    assert shown(ANSWERED_AND_LOST) == ["doubt forgotten"]


@pytest.mark.usefixtures("settles_nothing")
def test_a_doubt_that_a_run_was_handed_and_did_not_settle_is_found() -> None:
    assert shown(LEFT) == ["doubt forgotten"]


@pytest.mark.parametrize("scenario", [STALE, WAITING, UPDATED], ids=["stale", "waiting", "updated"])
def test_what_holds_shows_nothing(scenario: Scenario) -> None:
    assert shown(scenario) == []


def test_an_attempt_that_begins_after_the_result_not_done_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = MemoryStore._begin

    def begin(self: MemoryStore, write: Write, fence: Fence) -> Verdict:
        known = self.effect(fence.key)
        newest = max(write.version, known.version + 1 if known else 0)
        return plain(self, write.model_copy(update={"version": newest}), fence)

    monkeypatch.setattr(MemoryStore, "_begin", begin)
    assert shown(STALE) == ["reported as not done, and was"]


def test_an_attempt_that_begins_after_the_result_of_another_input_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    assert shown(LATER) == []
    monkeypatch.setattr(Performance, "_may_begin", lambda self, settled: False)
    assert shown(LATER) == ["done after the author's code went on"]


def test_a_message_that_confirms_what_the_other_side_has_not_done_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    assert shown(UNCALLED) == []
    monkeypatch.setattr(Interpreter, "confirmation", lambda self, slot: "done" if self.received else None)
    assert "reported as done, and was not" in shown(UNCALLED)


def test_a_mirror_that_shows_another_state_than_the_workflow_at_rest_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "_move", lambda entity, version, move: move.final and plain(entity, version, move))
    assert shown(WAITING)[:1] == ["the mirror shows another state"]


def test_a_mirror_that_names_a_doubt_which_is_over_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    assert shown(CONFIRMED_LATE) == []
    monkeypatch.setattr(Recorder, "note_outdated", lambda self, since: None)
    assert shown(CONFIRMED_LATE)[:1] == ["the mirror shows another reason"]


def test_an_acknowledged_update_that_no_snapshot_holds_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Interpreter, "snapshot", lambda self: Kept(received=self.received))
    assert shown(UPDATED) == ["an update is not received once"]


@pytest.mark.parametrize(
    ("shown", "more", "found"),
    [
        (("s0", "s2"), {}, True),
        (("s0", "s2"), {"skipped": {"held"}}, False),
        (("s0", "s2"), {"skipped": {"s3"}}, True),
        (("s0", "s1", "s0", "s2"), {}, True),
        (("s0", "s1", "s0", "s2"), {"tasks_lost": True}, False),
        (("s0", "s1", "s0", "s3"), {"tasks_lost": True}, True),
    ],
)
def test_a_state_follows_only_as_declared_or_as_another_writer_explains(
    shown: tuple[str, ...], more: dict[str, Any], found: bool
) -> None:
    moves = [Move(state=each) for each in shown]
    evidence = Evidence(Entity("explored", "1"), {}, {}, {}, moves, States("Explored", Place), **more)
    assert [each.kind for each in judge(evidence)] == ["a state follows that may not"] * found
