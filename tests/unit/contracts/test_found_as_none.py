"""A look-up returns None for a miss, so a receipt that is None could not be found."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from perdure import AskFirst, Effect, Lookup
from perdure.errors import DeclarationError
from tests.unit.contracts.test_unordered import declare


def asking(receipt: Any) -> Effect[str, Any]:
    """An effect that is looked up, with this receipt."""
    asks = AskFirst(Lookup[str, receipt]("find"), visibility_delay=timedelta(seconds=5))
    return Effect[str, receipt]("send", timeout=timedelta(seconds=5), doubt=asks)


@pytest.mark.parametrize("receipt", [None, str | None])
def test_a_look_up_whose_receipt_may_be_none_is_refused(receipt: Any) -> None:
    with pytest.raises(DeclarationError, match=r"the receipt of 'find' may be None, .* 'send', .* give both another"):
        declare(asking(receipt))


@pytest.mark.parametrize("receipt", [bool, str, Any, dict[str, Any]])
def test_a_receipt_that_is_found_is_taken(receipt: Any) -> None:
    declare(asking(receipt))
