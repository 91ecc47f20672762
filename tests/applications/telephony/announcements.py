"""A lifecycle that sends a notice by each of the channels that it is told, with durations that tests can wait for."""

from __future__ import annotations

from datetime import datetime, timedelta
from enum import StrEnum

from pydantic import BaseModel
from temporalio import workflow

from activities.telephony.contracts import (
    Accepted,
    Channel,
    Notice,
    Reported,
    call_contracts,
    reference_of,
    sms_contracts,
)
from perdure import Done, Lifecycle, RetryPolicy, WasRefused, state
from perdure.contracts import Key
from perdure.encryption import Private

QUICK = RetryPolicy(initial_interval=timedelta(seconds=0.1), maximum_interval=timedelta(seconds=1))
SMS, FIND_SMS = sms_contracts(
    timeout=timedelta(seconds=1),
    visibility_delay=timedelta(seconds=0.1),
    every=timedelta(seconds=0.1),
    retry=QUICK,
    limit=None,
)
CALL, FIND_CALL = call_contracts(
    timeout=timedelta(seconds=1),
    visibility_delay=timedelta(seconds=0.1),
    every=timedelta(seconds=0.1),
    retry=QUICK,
    limit=None,
)


class Announcement(BaseModel):
    """Whom to tell what."""

    to: Private
    text: Private
    channel: Channel
    until: datetime


class Way(StrEnum):
    NEW = "new"
    SENDING = "sending"
    SENT = state("sent", final=True)
    REFUSED = state("refused", final=True)
    OVER = state("over", final=True)


@workflow.defn(name="announcement")
class Announce(Lifecycle[Announcement, Way]):
    """Tells somebody."""

    effects = (SMS, CALL)

    def __init__(self) -> None:
        self.reports: dict[str, Reported] = {}

    @workflow.signal
    def reported(self, report: Reported) -> None:
        """A status callback."""
        self.reports[report.reference] = report

    @workflow.run
    async def run(self, announcement: Announcement) -> None:
        """Announce them once."""
        effect = SMS if announcement.channel is Channel.SMS else CALL
        reference = reference_of(Key.of(self.entity, effect.identity))

        def accepted() -> Accepted | None:
            report = self.reports.get(reference)
            return Accepted(sid=report.sid, status=report.status) if report else None

        notice = Notice(to=announcement.to, text=announcement.text, until=announcement.until)
        end = await self.perform(
            effect, notice, entering=Way.SENDING, expires_at=announcement.until, confirmed_by=accepted
        )
        match end:
            case Done(receipt):
                await self.enter(Way.SENT, why=receipt.status)
            case WasRefused(why):
                await self.enter(Way.REFUSED, why=why)
            case _:
                await self.enter(Way.OVER, why=end.why)
