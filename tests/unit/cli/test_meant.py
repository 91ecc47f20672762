"""The effect in doubt, and its attempt, that an answer for many entities is about."""

from __future__ import annotations

import pytest

from perdure.cli.acts import _meant
from perdure.cli.targets import InDoubt
from perdure.contracts.keys import Entity
from perdure.errors import NotNow

ORDER = Entity("order", "7")
CHARGE = InDoubt("order/7/pay", "charge", 2, began_later=False)
"""Today's name of its effect is `charge`, and the first one was `pay`."""
SHIP = InDoubt("order/7/ship/a~1", "ship/a", 3, began_later=False)


@pytest.mark.parametrize(
    ("doubts", "effect", "meant"),
    [
        ([CHARGE], None, ("order/7/pay", 2)),
        ([CHARGE, SHIP], "charge", ("order/7/pay", 2)),
        ([CHARGE, SHIP], "pay", ("order/7/pay", 2)),
        ([CHARGE, SHIP], "ship/a", ("order/7/ship/a~1", 3)),
        ([CHARGE, SHIP], "order/7/ship/a~1", ("order/7/ship/a~1", 3)),
        ([CHARGE, SHIP], None, (None, None)),
        ([CHARGE], "settle", ("settle", None)),
    ],
)
def test_the_one_that_is_named_is_meant_or_the_workflow_decides(
    doubts: list[InDoubt], effect: str | None, meant: tuple[str | None, int | None]
) -> None:
    assert _meant(ORDER, doubts, effect) == meant


@pytest.mark.parametrize(
    ("doubts", "why"),
    [([], "nothing of it is in doubt"), ([CHARGE, SHIP._replace(began_later=True)], "an attempt has begun since")],
)
def test_nothing_is_meant_that_was_not_there_when_the_command_counted(doubts: list[InDoubt], why: str) -> None:
    with pytest.raises(NotNow, match=why):
        _meant(ORDER, doubts, "charge")
