"""How old an inline effect may be, where commits were lost before it is ordered."""

from __future__ import annotations

import pytest

from perdure import Done
from perdure.testing.exploring.explorer import of_random_lifecycles
from perdure.testing.exploring.programs import Program
from perdure.testing.exploring.scenario import Event, Scenario


@pytest.mark.parametrize("outcome", ["not done", "no place", "later"])
def test_an_effect_that_expires_in_a_pause_puts_no_later_effect_in_doubt(outcome: str) -> None:
    """The commits of the `save` are lost after the expiry, and before the second effect."""
    saves = [["until", 18], *[["save"]] * 9]
    steps = [
        ["perform", "escalate", "p1", {"expires": 10}],
        *saves,
        ["until", 30],
        ["perform", "escalate-inline", "p2", {}],
    ]
    scenario = Scenario(
        seed=1,
        given=Program(steps=steps),
        calls={"escalate": [outcome] * 9},
        events=(Event(at=20.0, what="lose commits", seconds=60.0),),
        builds=(0,),
    )
    world = of_random_lifecycles().world(scenario)
    assert world.findings == []
    [result] = world.observed.results["explored/1/escalate-inline/p2"]
    assert isinstance(result.end, Done)
    assert result.at == pytest.approx(30, abs=1), "it waited for nobody"
