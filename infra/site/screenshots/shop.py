"""The application in the pictures: an order is charged, then it waits until somebody has packed it."""

from __future__ import annotations

import asyncio
import os
from datetime import timedelta
from enum import StrEnum

from pydantic import BaseModel
from temporalio import workflow

from perdure import App, AppColumn, Attempt, Done, Escalate, InDoubt, Lifecycle, NotPerformed, effect, state

PAYMENTS = "SHOP_PAYMENTS_PORT"
"""The variable with the port of the payment server on this machine."""


class Order(BaseModel):
    number: int
    cents: int


class Stage(StrEnum):
    NEW = "new"
    CHARGING = state("charging", within=timedelta(minutes=5))
    PACKING = "packing"
    PACKED = state("packed", final=True)
    DECLINED = state("declined", final=True)


@effect(timeout=timedelta(seconds=30), doubt=Escalate())
async def charge(order: Order, attempt: Attempt) -> str:
    """Charge the card; the receipt is the number of the charge."""
    reader, writer = await asyncio.open_connection("127.0.0.1", int(os.environ[PAYMENTS]))
    attempt.before_first_byte()
    writer.write(f"{order.number} {order.cents} {attempt.key.token}\n".encode())
    reply = await reader.readline()
    writer.close()
    if not reply:
        raise InDoubt("the payment server closed the connection before it replied")
    return reply.decode().strip()


@workflow.defn(name="order")
class OrderLifecycle(Lifecycle[Order, Stage]):
    effects = (charge,)
    mirror = AppColumn("orders", key="number", column="stage")

    def __init__(self) -> None:
        self._packed = False

    @workflow.run
    async def run(self, order: Order) -> None:
        """Charge, wait for the packing, end."""
        match await self.perform(charge, order, entering=Stage.CHARGING):
            case Done():
                await self.enter(Stage.PACKING)
                await self.wait_for(lambda: self._packed)
                await self.enter(Stage.PACKED)
            case NotPerformed(why):
                await self.enter(Stage.DECLINED, why)

    @workflow.signal
    def packed(self) -> None:
        """It was packed."""
        self._packed = True


app = App(lifecycles=[OrderLifecycle])
