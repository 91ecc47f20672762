"""Which effects ended without being done, and which of them is sent again."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from perdure._operations.undone import to_send_again, undone
from perdure.contracts.keys import Entity
from perdure.errors import NotNow

ENTITY = Entity("pair", "1")
RESERVE, CHARGE = ("pair/1/reserve-seat~1", "reserve-seat"), ("pair/1/charge-card", "charge-card")


def test_an_effect_that_was_sent_again_counts_under_its_newest_key() -> None:
    on_record = {
        "pair/1/reserve-seat": "refused",
        "pair/1/reserve-seat~1": "done",
        "pair/1/charge-card": "refused",
        "pair/1/charge-card~2": "abandoned",
        "pair/1/charge-card~1": "refused",
        "pair/1/charge-card/tip": "not_done",
        "pair/1/send-mail": "in_doubt",
    }
    effects = [SimpleNamespace(key=key, status=status) for key, status in on_record.items()]
    assert [each.key for each in undone(effects)] == ["pair/1/charge-card~2", "pair/1/charge-card/tip"]


def test_of_several_effects_the_named_one_is_sent_again() -> None:
    assert to_send_again(ENTITY, [RESERVE, CHARGE], "reserve-seat") == "pair/1/reserve-seat~1"
    assert to_send_again(ENTITY, [RESERVE], None) == "pair/1/reserve-seat~1"
    assert to_send_again(ENTITY, [RESERVE], "a-former-name") == "a-former-name", "which the workflow knows"
    with pytest.raises(NotNow, match="name one of reserve-seat, charge-card"):
        to_send_again(ENTITY, [RESERVE, CHARGE], None)
    with pytest.raises(NotNow, match="no effect had ended without being done when it was chosen"):
        to_send_again(ENTITY, [], None)
