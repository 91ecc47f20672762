"""The order in Perdure. `perdure worker bench.peers.with_perdure` runs it."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from enum import StrEnum
from typing import Any

from pydantic import BaseModel
from temporalio import workflow

from perdure import AppColumn, AskFirst, Attempt, Dedupe, Done, Lifecycle, LookupContext, effect, lookup, state

with workflow.unsafe.imports_passed_through():
    from bench.peers import shop


class Order(BaseModel):
    """Its input."""

    number: int


class Stage(StrEnum):
    """Its states."""

    NEW = "new"
    CHARGING = "charging"
    CHARGED = state("charged", final=True)
    DECLINED = state("declined", final=True)


@lookup(timeout=shop.TIMEOUT)
async def find_charge(order: Order, context: LookupContext) -> str | None:
    """Ask the other side."""
    return await asyncio.to_thread(shop.find, order.number)


DOUBT: Any = {
    "keeps": Dedupe(window=timedelta(days=36500)),
    "forgets": Dedupe(window=shop.WINDOW, margin=timedelta(seconds=1)),
    "look-up": AskFirst(find_charge, visibility_delay=shop.LAG),
}[shop.SIDE]


@effect(timeout=shop.TIMEOUT, doubt=DOUBT)
async def charge(order: Order, attempt: Attempt) -> str:
    """Charge the card."""
    attempt.before_first_byte()
    return await asyncio.to_thread(shop.charge, order.number, attempt.key.token)


@workflow.defn(name="order")
class OrderLifecycle(Lifecycle[Order, Stage]):
    """Charges the card."""

    effects = (charge,)
    mirror = AppColumn("orders", column="state")

    @workflow.run
    async def run(self, order: Order) -> None:
        """Charge, and end."""
        if not isinstance(await self.perform(charge, order, entering=Stage.CHARGING, then=Stage.CHARGED), Done):
            await self.enter(Stage.DECLINED)


def take(number: int) -> None:
    """Commit the order with its start."""
    with shop.transaction() as connection:
        connection.execute("insert into orders (id) values (%s)", [number])
        connection.execute(
            "select perdure.start('order', %s, jsonb_build_object('number', %s::int))", [str(number), number]
        )
    shop.at("after-commit")
