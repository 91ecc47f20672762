"""A strict Pydantic model takes JSON data wherever a lifecycle, an effect, a look-up or a step reads it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from enum import Enum, StrEnum
from typing import Any
from uuid import UUID

import pytest
from pydantic import BaseModel, ConfigDict
from temporalio import workflow

from perdure import App, AskFirst, Done, Effect, Escalate, InDoubt, Lifecycle, Lookup, Step, state
from perdure._operations.consequences import receipt_problem
from perdure._wire.requests import Resolution
from perdure.app import input_json
from perdure.contracts.outcomes import EffectStatus
from perdure.testing import At, WhenParked, rehearse
from tests.deadline import in_time


class Colour(Enum):
    RED = "red"


class Strict(BaseModel):
    """Pydantic refuses each of these fields in JSON data that it reads as Python values."""

    model_config = ConfigDict(strict=True)

    at: datetime
    id: UUID
    price: Decimal
    colour: Colour
    pair: tuple[int, int]


VALUE = Strict(
    at=datetime(2030, 1, 1, tzinfo=UTC), id=UUID(int=7), price=Decimal("1.10"), colour=Colour.RED, pair=(1, 2)
)
DATA = VALUE.model_dump(mode="json")
CALL: Any = {"timeout": timedelta(seconds=5)}
FIND = Lookup[Strict, Strict]("find-strict")
ASKED = Effect[Strict, Strict](
    "call-asked", doubt=AskFirst(FIND, visibility_delay=timedelta(0), every=timedelta(seconds=1)), **CALL
)
PARKED = Effect[Strict, Strict]("call-parked", doubt=Escalate(), **CALL)
COUNT = Step[Strict, Strict]("count")


class Way(StrEnum):
    NEW = "new"
    WAITING = "waiting"
    DONE = state("done", final=True)


@workflow.defn(name="strictly")
class Strictly(Lifecycle[Strict, Way]):
    """Performs the effects, takes the step, and waits."""

    effects = (ASKED, PARKED)
    steps = (COUNT,)

    def __init__(self) -> None:
        self.got: Strict | None = None

    def snapshot(self) -> Strict | None:
        return self.got

    @workflow.run
    async def run(self, given: Strict) -> None:
        self.got = self.got or self.restore(Strict)
        for effect in self.effects:
            end = await self.perform(effect, given, confirmed_by=lambda: self.got)
            assert end == Done(given)
        assert await self.step(COUNT, given) == given
        await self.enter(Way.WAITING)
        await self.wait_until(self.started_at + timedelta(hours=1))
        await self.enter(Way.DONE)

    @workflow.signal
    def call_back(self, got: Strict) -> None:
        self.got = got


RESOLUTION = Resolution(effect=PARKED.name, outcome=EffectStatus.DONE, receipt=DATA, by="ann", note="seen")


@pytest.mark.parametrize(
    ("script", "messages", "renews"),
    [
        pytest.param({}, [], False, id="inputs, receipts and results"),
        pytest.param({ASKED: [InDoubt("cut")], FIND: [VALUE]}, [], False, id="what a look-up finds"),
        pytest.param({PARKED: [InDoubt("cut")]}, [WhenParked("resolve", RESOLUTION)], False, id="a resolution"),
        pytest.param({PARKED: [InDoubt("cut")]}, [WhenParked("call_back", VALUE)], False, id="a confirmation"),
        pytest.param({}, [At(timedelta(minutes=1), "call_back", VALUE)], True, id="a snapshot"),
    ],
)
async def test_a_strict_model_is_read_back(script: Any, messages: Any, renews: bool) -> None:
    calls = {ASKED: [VALUE], PARKED: [VALUE], COUNT: [VALUE, VALUE], **script}
    run = rehearse(Strictly, VALUE, calls, messages=messages, renew_at_every_wait=renews, allow_unused=True)
    seen = await in_time(run)  # one that cannot read its record waits for ever
    assert (seen.end, seen.attention, seen.inputs(PARKED)) == (Way.DONE, None, [VALUE])


def test_a_receipt_that_an_operator_gives_fits_a_strict_model() -> None:
    def body() -> Any:
        async def returns(given: Strict, context: Any) -> Strict:
            return given

        return returns

    app = App([Strictly], [ASKED.performs(body()), PARKED.performs(body()), FIND.answers(body()), COUNT.takes(body())])
    assert receipt_problem(app, PARKED.name, DATA) is None
    assert receipt_problem(app, PARKED.name, DATA | {"id": "7"}) is not None


def test_an_input_from_the_database_fits_a_strict_model() -> None:
    assert input_json(Strictly, DATA, recorded=True) == DATA
