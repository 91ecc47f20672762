"""A record that today's code cannot read, when a cancel has come."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from enum import StrEnum
from typing import ClassVar

import pytest
from pydantic import BaseModel, field_validator
from temporalio import workflow

from perdure import Effect, InDoubt, Lifecycle, OperatorRequest, Repeat, RetryPolicy, state
from perdure.testing import START, At, rehearse

SLOW = RetryPolicy(initial_interval=timedelta(seconds=100), jitter=0)
CANCEL = At(timedelta(seconds=20), "cancel", OperatorRequest(by="ann", note="enough"))


class Receipt(BaseModel):
    """Workflows cannot read it while `readable` is False, as those of an edition that demands other fields."""

    number: int
    readable: ClassVar[bool] = False

    @field_validator("number")
    @classmethod
    def fits(cls, number: int) -> int:
        if workflow.in_workflow() and not cls.readable:
            raise ValueError("an older shape")
        return number


SEND = Effect[str, Receipt]("send", timeout=timedelta(seconds=5), doubt=Repeat(), retry=SLOW)
TELL = Effect[str, Receipt]("tell", timeout=timedelta(seconds=5), doubt=Repeat(), retry=SLOW)


class Way(StrEnum):
    NEW = "new"
    TELLING = "telling"
    DONE = state("done", final=True)
    CANCELLED = state("cancelled", cancelled=True)


class _Sending(Lifecycle[str, Way]):
    async def lead(self, name: str) -> None:
        await asyncio.gather(self.perform(SEND, name), self.wait_until(START + timedelta(hours=1)))
        await self.enter(Way.DONE)


@workflow.defn(name="silent")
class Silent(_Sending):
    """Ends without a word."""

    effects = (SEND,)

    @workflow.run
    async def run(self, name: str) -> None:
        await self.lead(name)


@workflow.defn(name="polite")
class Polite(_Sending):
    """Tells another before it ends cancelled."""

    effects = (SEND, TELL)

    @workflow.run
    async def run(self, name: str) -> None:
        await self.lead(name)

    async def cancelling(self, request: OperatorRequest) -> None:
        await self.enter(Way.TELLING)
        await self.perform(TELL, request.by)

    @workflow.signal
    def deploy(self, reads: bool) -> None:
        """Code that reads receipts, or does not, takes the place of the present code."""
        Receipt.readable = reads


async def test_a_receipt_that_no_code_waits_for_any_more_holds_up_no_cancel(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Receipt, "readable", False)
    seen = await rehearse(Silent, "x", {SEND: [InDoubt("cut"), Receipt(number=1)]}, messages=[CANCEL])
    assert (seen.states, seen.attention) == ([Way.CANCELLED], None)


async def test_cancelling_stands_still_until_the_code_can_read_a_receipt(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Receipt, "readable", True)
    seen = await rehearse(
        Polite,
        "x",
        {SEND: [Receipt(number=1)], TELL: [Receipt(number=2)]},
        messages=[
            At(timedelta(seconds=10), "deploy", False),
            CANCEL,
            At(timedelta(minutes=1), "status"),
            At(timedelta(minutes=2), "deploy", True),
        ],
    )
    stood = [each.result.attention for each in seen.answers if each.name == "status"]
    assert stood == ["the receipt of tell can't be read: number: value error"]
    assert (seen.states, seen.calls(TELL), seen.attention) == ([Way.TELLING, Way.CANCELLED], 1, None)
