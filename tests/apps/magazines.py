"""A magazine that is charged and sent each month, until its reader ends that."""

from __future__ import annotations

from datetime import timedelta
from enum import StrEnum

from pydantic import BaseModel
from temporalio import workflow

from perdure import Attempt, Dedupe, Lifecycle, OperatorRequest, effect, state


class Reader(BaseModel):
    months: int


class Issues(BaseModel):
    month: int = 0
    stopped: bool = False


class Reading(StrEnum):
    RESTING = state("resting", leads_to=("charging", "parting", "over"))
    CHARGING = state("charging", leads_to=("resting", "parting", "held"))
    HELD = state("held", attention=True)
    PARTING = state("parting", leads_to=("held",))
    OVER = state("over", final=True)
    CANCELLED = state("cancelled", cancelled=True)


@effect(timeout=timedelta(seconds=5), doubt=Dedupe(window=timedelta(days=1)))
async def charge_month(reader: Reader, attempt: Attempt) -> str:
    raise NotImplementedError


@effect(timeout=timedelta(seconds=5), doubt=Dedupe(window=timedelta(days=1)))
async def say_goodbye(reader: Reader, attempt: Attempt) -> None:
    raise NotImplementedError


@workflow.defn(name="magazine")
class Magazine(Lifecycle[Reader, Reading]):
    effects = (charge_month, say_goodbye)

    def __init__(self) -> None:
        self.month = 0
        self.stopped = False

    def snapshot(self) -> Issues:
        return Issues(month=self.month, stopped=self.stopped)

    @workflow.run
    async def run(self, reader: Reader) -> None:
        self.reader = reader
        kept = self.restore(Issues) or Issues()
        self.month, self.stopped = kept.month, self.stopped or kept.stopped
        while self.month < reader.months:
            await self.wait_until(self.started_at + self.month * timedelta(days=30))
            await self.perform_until_done(
                charge_month,
                reader,
                entering=Reading.CHARGING,
                suffix=f"month-{self.month}",
                otherwise=Reading.HELD,
            )
            self.month = reader.months if self.stopped else self.month + 1  # the decision is in the snapshot
            await self.enter(Reading.RESTING)
        await self.enter(Reading.OVER)

    @workflow.signal
    def stop(self) -> None:
        self.stopped = True

    async def cancelling(self, asked: OperatorRequest) -> None:
        await self.perform_until_done(say_goodbye, self.reader, entering=Reading.PARTING, otherwise=Reading.HELD)
