"""An app that uses only what this release and the one before both have. It tells the other side on which one it ran."""

from __future__ import annotations

import asyncio
import json
import os
from datetime import timedelta
from enum import StrEnum

from pydantic import BaseModel
from temporalio import workflow

import perdure
from perdure import App, AppColumn, Attempt, Done, Effect, Escalate, Lifecycle, NotPerformed, RetryPolicy, state


class Ware(BaseModel):
    """What to order."""

    what: str = "x"


class Ordered(BaseModel):
    """What the other side gave for it."""

    number: int


class Step(StrEnum):
    """Where it is."""

    PENDING = state("pending", leads_to=("ordering",))
    ORDERING = "ordering"
    FAILED = state("failed", leads_to=("ordering",), attention=True)
    ORDERED = state("ordered", final=True)


ORDER = Effect[Ware, Ordered](
    "order",
    timeout=timedelta(seconds=5),
    doubt=Escalate(),
    retry=RetryPolicy(initial_interval=timedelta(seconds=0.1), maximum_interval=timedelta(seconds=0.3)),
    heartbeat_timeout=timedelta(seconds=2),
)


@ORDER.performs
async def order(ware: Ware, attempt: Attempt) -> Ordered:
    """Ask the counterparty."""
    reader, writer = await asyncio.open_connection("127.0.0.1", int(os.environ["COUNTERPARTY_PORT"]))
    attempt.before_first_byte()
    request = {"op": "do", "key": attempt.key, "pid": os.getpid(), "library": perdure.__file__}
    writer.write(json.dumps(request).encode() + b"\n")
    reply = json.loads(await reader.readline() or b"{}")
    writer.close()
    if "number" not in reply:
        raise ConnectionResetError("the counterparty closed the connection")
    if reply.get("refused"):
        raise perdure.Refused(reply["refused"])
    return Ordered(number=reply["number"])


@workflow.defn(name="purchase")
class Purchase(Lifecycle[Ware, Step]):
    """Orders until it is ordered."""

    effects = (ORDER,)
    mirror = AppColumn("booking", column="state")

    @workflow.run
    async def run(self, ware: Ware) -> None:
        """Order, and again when asked."""
        while True:
            match await self.perform(ORDER, ware, entering=Step.ORDERING):
                case Done():
                    return await self.enter(Step.ORDERED)
                case NotPerformed(why):
                    await self.enter(Step.FAILED, why=why)
                    await self.retry_requested()


app = App([Purchase], [order])
