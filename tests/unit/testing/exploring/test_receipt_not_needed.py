"""A receipt that does not fit needs a person only as long as the author's code waits for it."""

from __future__ import annotations

from perdure.contracts.keys import Entity
from perdure.testing.exploring.explorer import of_random_lifecycles
from perdure.testing.exploring.programs import Program
from perdure.testing.exploring.scenario import Scenario


def test_a_receipt_whose_wait_was_withdrawn_needs_no_person() -> None:
    scan = ["perform", "scan", "p", {"large": True}]
    given = Program(steps=[["within", 4, [scan]], ["enter", "s1"]])
    world = of_random_lifecycles().world(Scenario(seed=1, given=given, builds=(0,)))

    assert world.findings == []
    moves = world.database.moves(Entity("explored", "1"))
    assert [(each.state, bool(each.attention)) for each in moves] == [
        ("starting", False),
        ("s0", True),
        ("s0", False),
        ("s1", False),
        ("ended", False),
    ]
