"""The exploration accepts a run whose delivery is not on record yet: the mirror shows `starting`."""

from __future__ import annotations

import pytest

from perdure.testing.exploring.explorer import of_random_lifecycles
from perdure.testing.exploring.programs import Program
from perdure.testing.exploring.scenario import Fault, Scenario


@pytest.mark.parametrize("effect", ["escalate-inline", "escalate", "dedupe-inline"])
def test_an_outcome_that_the_run_itself_puts_on_record_before_that_leaves_it_in_its_first_state(effect: str) -> None:
    """The database goes away before the commit of the outcome, and before the relay's."""
    program = Program(steps=[["perform", effect, "p1", {}]])
    scenario = Scenario(seed=0, given=program, faults=(Fault("before the commit", 2, "away", 8.0),), builds=(0,))

    world = of_random_lifecycles().world(scenario)

    assert world.findings == []
