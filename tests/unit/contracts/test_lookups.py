"""A look-up that could not find its effect is refused when the class is made.

It returns None for a miss, so it could not find a receipt that is None. It reads the input of the effect, and its hit
is recorded as the receipt of the effect, so both have the same types.
"""

from __future__ import annotations

from datetime import timedelta
from enum import StrEnum
from typing import Annotated, Any

import pytest
from pydantic import BaseModel, model_validator
from temporalio import workflow

from perdure import AskFirst, Attempt, Effect, InDoubt, Lifecycle, Lookup, LookupContext, effect, lookup, state
from perdure.errors import DeclarationError
from perdure.temporal import EffectsPlugin
from perdure.testing import rehearse
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


class Order(BaseModel):
    """An input."""

    number: int


FOUND = Lookup[Order, str]("find")


@lookup(name="find")
async def found(order: Order, context: LookupContext) -> str | None: ...


def looked_up(by: Lookup[Any, Any], given: Any = Order, receipt: Any = str) -> Effect[Any, Any]:
    """An effect with this look-up."""
    asks = AskFirst(by, visibility_delay=timedelta(seconds=5))
    return Effect[given, receipt]("send", timeout=timedelta(seconds=5), doubt=asks)


@pytest.mark.parametrize("find", [FOUND, found])
def test_a_look_up_of_other_types_is_refused(find: Lookup[Any, Any]) -> None:
    with pytest.raises(DeclarationError, match=r"Holding: the receipt of 'find' is .*str'>, .* 'send', .*, is .*bool"):
        declare(looked_up(find, receipt=bool))
    with pytest.raises(DeclarationError, match=r"Holding: the input of 'find' is .*Order'>, .*, is .*int'>: decl"):
        declare(looked_up(find, given=int))


def test_a_worker_of_plain_temporal_refuses_one_as_well() -> None:
    asks = AskFirst(found, visibility_delay=timedelta(seconds=5))

    @effect(name="send", timeout=timedelta(seconds=5), doubt=asks)  # type: ignore[arg-type]
    async def send(order: Order, attempt: Attempt) -> bool:
        return True

    with pytest.raises(DeclarationError, match=r"EffectsPlugin: the receipt of 'find' is .*, and that of 'send'"):
        EffectsPlugin(send)


@pytest.mark.parametrize("find", [FOUND, found, Lookup[Any, Any]("find")])
def test_a_look_up_of_the_same_types_is_taken(find: Lookup[Any, Any]) -> None:
    declare(looked_up(find, given=Annotated[Order, "as it came"]))


class Sending(StrEnum):
    NEW = "new"
    SENT = state("sent", final=True)


SEND = looked_up(FOUND)


@workflow.defn(name="sending")
class SendOrder(Lifecycle[Order, Sending]):
    """Sends."""

    effects = (SEND,)

    @workflow.run
    async def run(self, order: Order) -> None:
        """See the class."""
        await self.perform(SEND, order, then=Sending.SENT)


async def test_a_hit_that_is_no_receipt_is_no_answer() -> None:
    async def yes(order: Order, context: LookupContext) -> Any:
        return True

    seen = await rehearse(SendOrder, Order(number=1), {SEND: [InDoubt("cut")], FOUND: [yes, "A-1"]})
    assert [each.receipt for each in seen.effects.values()] == ["A-1"]
    assert (seen.end, seen.calls(FOUND)) == (Sending.SENT, 2)
