"""A purchase that an older program may have brought to any point: it is charged, then shipped."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal
from enum import StrEnum

from pydantic import BaseModel
from temporalio import workflow

from perdure import App, Attempt, Effect, Escalate, Lifecycle, state
from perdure.encryption import Private


class Purchase(BaseModel):
    """What is bought."""

    amount: Decimal = Decimal(1)
    phone: Private = Private("")


class Stage(StrEnum):
    """Where it is."""

    CHARGING = "charging"
    CHARGED = "charged"
    SHIPPED = state("shipped", final=True)


CHARGE = Effect[Purchase, str]("charge-purchase", timeout=timedelta(seconds=1), doubt=Escalate())
SHIP = Effect[Purchase, str]("ship-purchase", timeout=timedelta(seconds=2), doubt=Escalate())

performed: list[str] = []
"""The keys of all calls, in this process."""


@workflow.defn(name="purchase")
class PurchaseLifecycle(Lifecycle[Purchase, Stage]):
    """Charges and ships."""

    effects = (CHARGE, SHIP)

    def __init__(self) -> None:
        self.paid = Decimal(1)

    @workflow.run
    async def run(self, purchase: Purchase) -> None:
        """Do both, whatever comes of them."""
        await self.wait_for(lambda: self.paid >= purchase.amount)
        await self.perform(CHARGE, purchase, entering=Stage.CHARGING, then=Stage.CHARGED)
        await self.perform(SHIP, purchase, suffix="parcel", then=Stage.SHIPPED)

    @workflow.signal
    def pay(self, amount: Decimal) -> None:
        """Take a payment."""
        self.paid += amount


@CHARGE.performs
async def charge(purchase: Purchase, attempt: Attempt) -> str:
    """Charge."""
    performed.append(attempt.key)
    return "charged"


@SHIP.performs
async def ship(purchase: Purchase, attempt: Attempt) -> str:
    """Ship."""
    performed.append(attempt.key)
    return "shipped"


app = App(lifecycles=[PurchaseLifecycle], effects=[charge, ship])
