"""An order that is charged once and packed when a message says so; one whose charge a message confirms, and one that
several people approve; three that are written wrongly; and a greeting."""

from __future__ import annotations

import random
from datetime import timedelta
from enum import StrEnum

from pydantic import BaseModel
from temporalio import workflow

from perdure import Done, Effect, Escalate, Lifecycle, NotPerformed, Repeat, RetryPolicy, state


class Order(BaseModel):
    number: int


class Charge(BaseModel):
    id: str


class Packed(BaseModel):
    packed: bool


class Stage(StrEnum):
    CHARGING = state("charging", leads_to=("packing", "failed"))
    PACKING = state("packing", leads_to=("done",))
    DONE = state("done", final=True)
    FAILED = state("failed", final=True)


CHARGE = Effect[Order, Charge](
    "charge", timeout=timedelta(seconds=5), doubt=Escalate(), retry=RetryPolicy(maximum_attempts=3)
)


@workflow.defn(name="order")
class OrderLifecycle(Lifecycle[Order, Stage]):
    effects = (CHARGE,)

    def __init__(self) -> None:
        self.packed = False

    @workflow.run
    async def run(self, order: Order) -> None:
        kept = self.restore(Packed)
        self.packed = self.packed or (kept is not None and kept.packed)
        match await self.perform(CHARGE, order):
            case Done():
                await self.enter(Stage.PACKING)
                await self.wait_for(lambda: self.packed)
                await self.enter(Stage.DONE)
            case NotPerformed(why):
                await self.enter(Stage.FAILED, why)

    @workflow.signal
    def pack(self, by: str) -> None:
        self.packed = True

    def snapshot(self) -> Packed:
        return Packed(packed=self.packed)


@workflow.defn(name="confirmed")
class Confirmed(Lifecycle[Order, Stage]):
    """Takes the message of the other side as proof of a charge in doubt."""

    effects = (CHARGE,)

    def __init__(self) -> None:
        self.charge: Charge | None = None

    @workflow.run
    async def run(self, order: Order) -> None:
        self.charge = self.charge or self.restore(Charge)
        match await self.perform(CHARGE, order, confirmed_by=lambda: self.charge):
            case Done():
                await self.enter(Stage.PACKING)
                await self.enter(Stage.DONE)
            case NotPerformed(why):
                await self.enter(Stage.FAILED, why)

    @workflow.signal
    def charged(self, charge: Charge) -> None:
        self.charge = charge

    def snapshot(self) -> Charge | None:
        return self.charge


class Approvals(BaseModel):
    by: list[str] = []


@workflow.defn(name="approved")
class Approved(Lifecycle[Order, Stage]):
    """Is packed when as many people have approved as its number says."""

    def __init__(self) -> None:
        self.approvals = Approvals()

    @workflow.run
    async def run(self, order: Order) -> None:
        self.approvals.by[:0] = (self.restore(Approvals) or Approvals()).by
        await self.wait_for(lambda: len(set(self.approvals.by)) >= order.number)
        await self.enter(Stage.PACKING)
        await self.enter(Stage.DONE)

    @workflow.signal
    def approve(self, by: str) -> None:
        self.approvals.by.append(by)

    def snapshot(self) -> Approvals:
        return self.approvals


@workflow.defn(name="hasty")
class Hasty(Lifecycle[Order, Stage]):
    """Takes *expired* for *not done*, and charges again under another key."""

    effects = (CHARGE,)

    @workflow.run
    async def run(self, order: Order) -> None:
        soon = self.started_at + timedelta(seconds=3)
        if not isinstance(await self.perform(CHARGE, order, suffix="first", expires_at=soon), Done):
            await self.perform(CHARGE, order, suffix="second")
        await self.enter(Stage.PACKING)
        await self.enter(Stage.DONE)


@workflow.defn(name="unkept")
class Unkept(Lifecycle[Order, Stage]):
    """Has no snapshot, so that a new run has lost what the one before was told."""

    effects = (CHARGE,)

    def __init__(self) -> None:
        self.packed = 0

    @workflow.run
    async def run(self, order: Order) -> None:
        await self.enter(Stage.PACKING)
        await self.wait_for(lambda: self.packed >= 4)
        await self.enter(Stage.DONE)

    @workflow.signal
    def pack(self, by: str) -> None:
        self.packed += 1


@workflow.defn(name="drawing")
class Drawing(Lifecycle[Order, Stage]):
    """Draws its keys."""

    effects = (CHARGE,)

    @workflow.run
    async def run(self, order: Order) -> None:
        await self.perform(CHARGE, order, suffix=str(random.random()))
        await self.enter(Stage.PACKING)
        await self.enter(Stage.DONE)


GREET = Effect[str, None]("greet", timeout=timedelta(seconds=5), doubt=Repeat())


@workflow.defn(name="greeting")
class Greeting(Lifecycle[str, Stage]):
    """Greets, once if all goes well."""

    effects = (GREET,)

    @workflow.run
    async def run(self, name: str) -> None:
        await self.perform(GREET, name)
        await self.enter(Stage.PACKING)
        await self.enter(Stage.DONE)
