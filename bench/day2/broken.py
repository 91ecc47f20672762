"""The order with a bug: the code fails for each number that `BROKEN_EVERY` divides."""

from __future__ import annotations

import os

from temporalio import workflow

from bench.peers.with_perdure import Order, Stage, charge
from perdure import AppColumn, Done, Lifecycle

EVERY = int(os.environ.get("BROKEN_EVERY", "1"))


@workflow.defn(name="order")
class BrokenOrder(Lifecycle[Order, Stage]):
    """Charges the card, unless it meets its bug."""

    effects = (charge,)
    mirror = AppColumn("orders", column="state")

    @workflow.run
    async def run(self, order: Order) -> None:
        """Fail, or charge and end."""
        if order.number % EVERY == 0:
            raise RuntimeError("a bug")
        if not isinstance(await self.perform(charge, order, entering=Stage.CHARGING, then=Stage.CHARGED), Done):
            await self.enter(Stage.DECLINED)
