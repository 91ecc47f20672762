"""A worker whose event loop stands still: its local activities time out in Temporal's core, which goes on."""

from __future__ import annotations

from collections import Counter

import pytest
from temporalio.exceptions import ActivityError, ApplicationError

from perdure._workflow import attempts, recorder, stepping
from perdure.testing.exploring.explorer import of_random_lifecycles
from perdure.testing.exploring.programs import Program
from perdure.testing.exploring.scenario import Event, Fault, Finding, Scenario

TIMED_OUT = ("local activity timed out", "start_to_close")
STEPS = [["until", 1], ["save"], ["step"], ["perform", "look-up-inline", "p1", {}], ["save"], ["until", 60]]
A_WRITE = Fault("before the commit", 1, "stall", 6.0)
A_STEP = Fault("after the commit", 2, "stall", 15.0)
AN_EFFECT = Fault("after the commit", 3, "stall", 18.0)
MODULES = {A_WRITE: recorder, A_STEP: stepping, AN_EFFECT: attempts}
EVICTED = Event(40.0, "evict")


def play(fault: Fault, event: Event) -> tuple[list[Finding], Counter[tuple[str, str]]]:
    covered: Counter[tuple[str, str]] = Counter()
    one = Scenario(seed=1, given=Program(steps=STEPS), faults=(fault,), events=(event,), builds=(0,))
    return of_random_lifecycles().play(one, covered), covered


@pytest.mark.parametrize("fault", MODULES, ids=["write", "step", "effect"])
def test_a_run_goes_on_after_a_time_out_and_can_be_replayed(fault: Fault) -> None:
    findings, covered = play(fault, EVICTED)
    assert findings == []
    assert covered[TIMED_OUT] == 1
    assert covered["replayed", "plain"]


@pytest.mark.parametrize("fault", MODULES, ids=["write", "step", "effect"])
def test_a_run_that_knows_the_time_out_only_as_it_comes_at_first_is_found(
    fault: Fault, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(MODULES[fault], "NO_ANSWER", (ActivityError, ApplicationError))
    findings, _ = play(fault, EVICTED)
    assert {each.kind for each in findings} & {"replay differs", "workflow task fails"}


def test_a_time_out_does_not_count_where_its_workflow_task_was_lost() -> None:
    findings, covered = play(Fault("before the commit", 1, "stall", 35.0), EVICTED)
    assert findings == []
    assert covered[TIMED_OUT] == 1


@pytest.mark.parametrize("what", ["freeze", "stall"])
def test_a_worker_that_stands_still_for_a_moment_loses_nothing(what: str) -> None:
    findings, covered = play(Fault("before the commit", 1, what, 4.5), EVICTED)
    assert findings == []
    assert not covered[TIMED_OUT]
