"""Which state holds where two handlers enter one."""

from __future__ import annotations

import pytest

from perdure.contracts.keys import Entity
from perdure.testing.exploring.explorer import of_random_lifecycles
from perdure.testing.exploring.programs import Program
from perdure.testing.exploring.scenario import Event, Scenario


@pytest.mark.parametrize(("away", "entered_at"), [(12.0, 1.04), (20.0, 13.54), (30.0, 12.54)])
def test_a_state_that_a_handler_has_entered_stays_when_an_attempt_with_the_same_state_does_not_begin(
    away: float, entered_at: float
) -> None:
    given = Program(
        steps=[["messages", 1], ["until", 200]],
        at_message=[["perform", "dedupe-inline", "p1", {"entering": "held", "expires": 3}]],
        at_update=[["enter", "held"]],
    )
    events = (Event(1.0, "message"), Event(1.03, "away", away), Event(entered_at, "update"))

    world = of_random_lifecycles().world(Scenario(seed=1, given=given, events=events, builds=(0,)))

    assert world.findings == []
    states = [each.state for each in world.database.moves(Entity("explored", "1"))]
    assert set(states) == {"starting", "held", "ended"}
