"""A number with more digits than a float holds is read exactly, or refused; every other number is a float."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest
from pydantic import BaseModel, TypeAdapter

from perdure.contracts.digits import loses_digits
from perdure.contracts.sizes import parsed

LONG = "12345678901234567.89"


class Bill(BaseModel):
    """What has numbers."""

    amount: Decimal = Decimal(0)
    ratio: float = 0
    more: Any = None


@pytest.mark.parametrize("text", ["0.1", "1.50", "1e3", "-0.0", "0.00000000000000001", "1234567890.12345"])
def test_a_number_that_a_float_holds_is_one(text: str) -> None:
    assert type(parsed(text)) is float
    assert parsed(text) == float(text)


@pytest.mark.parametrize("text", [LONG, "0.33333333333333333333", "1" * 400 + ".5"])
def test_a_decimal_has_all_digits_and_a_float_the_nearest(text: str) -> None:
    bill = Bill.model_validate(parsed(f'{{"amount": {text}, "ratio": {text}}}'))
    assert bill == Bill(amount=Decimal(text), ratio=float(text))
    assert type(bill.ratio) is float


def test_only_a_decimal_loses_digits() -> None:
    bills = TypeAdapter(list[Bill])
    assert loses_digits(bills, parsed(f'[{{"ratio": 1.5}}, {{"amount": {LONG}}}]'))
    assert not loses_digits(bills, parsed(f'[{{"ratio": {LONG}, "more": [{LONG}], "amount": 1.50}}]'))
    assert not loses_digits(bills, parsed(f'[{{"amount": "{LONG}"}}]'))
    assert not loses_digits(bills, parsed(f'[{{"amount": {LONG}, "ratio": "x"}}]')), "it does not fit at all"
