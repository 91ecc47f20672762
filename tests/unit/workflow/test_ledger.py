"""What a run hands on of the effects that earlier runs performed."""

from __future__ import annotations

from perdure._wire.carried import Carried, Unsettled
from perdure._wire.known import Known
from perdure._workflow.ledger import REMEMBERED, Ledger

EARLIER = [f"call/{number}" for number in range(REMEMBERED + 50)]


def test_a_run_that_repeats_nothing_hands_on_the_newest() -> None:
    ledger = Ledger((), Carried(state="calling", performed=EARLIER))
    assert ledger.carried()["performed"] == EARLIER[-REMEMBERED:]


def test_a_run_that_leaves_an_effect_unsettled_hands_on_all() -> None:
    unsettled = {"calling/1/call": Unsettled(known=Known())}
    ledger = Ledger((), Carried(state="calling", performed=EARLIER, unsettled=unsettled))
    assert ledger.carried()["performed"] == EARLIER
