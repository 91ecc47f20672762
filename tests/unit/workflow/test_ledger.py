"""What a run hands on of the effects that earlier runs performed."""

from __future__ import annotations

from datetime import timedelta
from types import SimpleNamespace
from typing import Any

from perdure import Effect, Escalate
from perdure._wire.carried import Carried, Unsettled
from perdure._wire.known import Known
from perdure._wire.writes import EffectView
from perdure._workflow.ledger import REMEMBERED, Ledger
from perdure.contracts.outcomes import EffectStatus

EARLIER = [f"call/{number}" for number in range(REMEMBERED + 50)]


def test_a_run_that_repeats_nothing_hands_on_the_newest() -> None:
    ledger = Ledger((), Carried(state="calling", performed=EARLIER))
    assert ledger.carried()["performed"] == EARLIER[-REMEMBERED:]


def test_a_run_that_leaves_an_effect_unsettled_hands_on_all() -> None:
    unsettled = {"calling/1/call": Unsettled(known=Known())}
    ledger = Ledger((), Carried(state="calling", performed=EARLIER, unsettled=unsettled))
    assert ledger.carried()["performed"] == EARLIER


def test_a_renamed_effect_has_one_name_in_temporals_lists_whatever_build_runs_it() -> None:
    """A build whose contract has another name would replay another history: a changed name is a command."""
    effect = Effect[str, int]("post", timeout=timedelta(seconds=1), doubt=Escalate(), aliases=("send",))
    doubt = Unsettled(
        known=Known(effect=EffectView(status=EffectStatus.IN_DOUBT)), attention="nobody knows", effect="send"
    )
    ledger = Ledger((effect,), Carried(state="sending", unsettled={"it/1/send": doubt}))
    assert ledger.attention_word == "in doubt: send"
    performance: Any = SimpleNamespace(effect=effect, known=doubt.known, attention=doubt.attention)
    ledger.performances["it/1/send"] = performance
    assert ledger.attention_word == "in doubt: send"
