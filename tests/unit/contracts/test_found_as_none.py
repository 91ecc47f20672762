"""A look-up returns None for a miss, so a receipt that is None could not be found."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from pydantic import BaseModel, model_validator

from perdure import AskFirst, Effect, Lookup
from perdure.errors import DeclarationError
from tests.unit.contracts.test_input_types import declare


def asking(receipt: Any) -> Effect[str, Any]:
    """An effect that is looked up, with this receipt."""
    asks = AskFirst(Lookup[str, receipt]("find"), visibility_delay=timedelta(seconds=5))
    return Effect[str, receipt]("send", timeout=timedelta(seconds=5), doubt=asks)


class Upcast(BaseModel):
    """A receipt that an earlier edition wrote in another shape."""

    number: int

    @model_validator(mode="before")
    @classmethod
    def from_the_older_shape(cls, data: Any) -> Any:
        """See the class; `None` is no container."""
        return {"number": data["nr"]} if "nr" in data else data


class Lenient(BaseModel):
    """A receipt that reads null as a receipt, and is never written as null."""

    number: int = 0

    @model_validator(mode="before")
    @classmethod
    def from_null(cls, data: Any) -> Any:
        """See the class."""
        return data or {}


@pytest.mark.parametrize("receipt", [None, str | None])
def test_a_look_up_whose_receipt_may_be_none_is_refused(receipt: Any) -> None:
    with pytest.raises(DeclarationError, match=r"the receipt of 'find' may be None, .* 'send', .* give both another"):
        declare(asking(receipt))


@pytest.mark.parametrize("receipt", [bool, str, Any, dict[str, Any], Upcast, Lenient])
def test_a_receipt_that_is_found_is_taken(receipt: Any) -> None:
    declare(asking(receipt))
