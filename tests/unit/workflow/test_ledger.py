"""What a run hands on of the effects that earlier runs performed."""

from __future__ import annotations

from datetime import timedelta
from types import SimpleNamespace
from typing import Any

from perdure import Effect, Escalate
from perdure._wire.carried import Carried, HowNotPerformed, Unsettled
from perdure._wire.known import Known
from perdure._wire.writes import EffectView
from perdure._workflow.ledger import REASONS, REMEMBERED, Ledger
from perdure.contracts.outcomes import EffectStatus

EARLIER = [f"call/{number}" for number in range(REMEMBERED + 50)]

KEYS = [f"calling/1/{slot}" for slot in EARLIER]
ENDED = {
    key: HowNotPerformed(slot=slot, kind="Expired", why="over", in_doubt=slot == EARLIER[0])
    for key, slot in zip(KEYS, EARLIER, strict=True)
}
"""The first is in doubt."""


def test_a_run_that_repeats_nothing_hands_on_the_newest() -> None:
    ledger = Ledger((), Carried(state="calling", performed=EARLIER))
    assert ledger.carried()["performed"] == EARLIER[-REMEMBERED:]


def test_of_ends_that_a_run_does_not_repeat_it_hands_on_the_newest_and_those_in_doubt() -> None:
    ledger = Ledger((), Carried(state="calling", ended=ENDED))
    ledger.ended_earlier.discard(KEYS[2])  # as it does when the run comes back to it
    assert [*ledger.carried()["ended"]] == [KEYS[0], KEYS[2], *KEYS[-REMEMBERED:]]


def test_a_run_that_leaves_an_effect_unsettled_hands_on_all() -> None:
    unsettled = {"calling/1/call": Unsettled(known=Known())}
    ledger = Ledger((), Carried(state="calling", performed=EARLIER, ended=ENDED, unsettled=unsettled))
    assert ledger.carried()["performed"] == EARLIER
    assert [*ledger.carried()["ended"]] == KEYS


def test_the_reasons_of_many_ends_are_cut_so_that_the_next_run_can_start() -> None:
    ended = {key: how.model_copy(update={"why": "no " * 600}) for key, how in ENDED.items()}
    unsettled = {"calling/1/call": Unsettled(known=Known())}
    few = dict(list(ended.items())[:50])
    assert Ledger((), Carried(state="calling", ended=few, unsettled=unsettled)).carried()["ended"] == few
    for _ in range(2):
        carried = Ledger((), Carried(state="calling", ended=ended, unsettled=unsettled)).carried()
        ended = carried["ended"]
    share = REASONS // len(KEYS)
    assert {(how.why, how.kind) for how in ended.values()} == {(f"{('no ' * 600)[:share]}...", "Expired")}


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
