"""Each dose of a patient is one reminder: sent once, within its window, outside the quiet hours, or visibly not.

`due -> sending -> sent | expired | refused | error`; `accepted` while the reminder waits for a confirmation;
`withdrawn` if the patient signed off or paused before the provider accepted it.
"""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from functools import partial

from temporalio import workflow

from activities.reminders.contracts.reminders import Dose, Opening, Reports
from activities.telephony.contracts import PLACE_CALL, SEND_SMS, Accepted, Channel, Notice, Reported, reference_of
from perdure import Done, Expired, Lifecycle, NotPerformed, OperatorRequest, WasRefused, state
from perdure.contracts import Erasure, Key


class Reminder(StrEnum):
    """The states of the reminder of a dose."""

    DUE = state("due", leads_to=("sending", "expired", "error"))
    SENDING = "sending"
    ACCEPTED = state("accepted", leads_to=("sending", "sent", "expired", "refused", "error"))
    SENT = state("sent", final=True)
    EXPIRED = state("expired", final=True)
    REFUSED = state("refused", final=True)
    ERROR = state("error", final=True)
    WITHDRAWN = state("withdrawn", cancelled=True)


@workflow.defn(name="dose")
class DoseReminder(Lifecycle[Dose, Reminder]):
    """Sends the reminder of one dose."""

    effects = (SEND_SMS, PLACE_CALL)
    erasure = Erasure(elsewhere=("the telephony provider keeps lists of its messages and calls",))
    if_ended = "again"

    def __init__(self) -> None:
        self.reports: dict[str, Reported] = {}

    def snapshot(self) -> Reports:
        """The data for the next run."""
        return Reports(last=self.reports)

    @workflow.run
    async def run(self, dose: Dose) -> None:
        """Send the reminder in the first opening in which that is possible."""
        if restored := self.restore(Reports):
            newer, self.reports = self.reports, dict(restored.last)
            for report in newer.values():
                self.reported(report)
        refused: dict[Channel, str] = {}
        why = "all of its window lies in the quiet hours" if not dose.openings else "it was started too late"
        for number, opening in enumerate(dose.openings):
            if workflow.now() >= opening.until:
                continue
            if workflow.now() < opening.start:
                await self.wait_until(opening.start)
            end = await self._send(dose, opening, str(number) if number else None, refused)
            match end:
                case None:
                    return
                case Expired(why, in_doubt=False):
                    continue  # it was certainly not sent, and may be sent after the quiet hours
                case Expired(why):
                    break
                case WasRefused(why):
                    return await self.enter(Reminder.REFUSED, why=why)
                case NotPerformed(why):
                    return await self.enter(Reminder.ERROR, why=why)
        await self.enter(Reminder.EXPIRED, why=why)

    async def cancelling(self, asked: OperatorRequest) -> None:
        """Enter `sent` if the provider has accepted the reminder, even without its later reports."""
        if self.state is Reminder.ACCEPTED:
            await self.enter(Reminder.SENT, why="accepted; not confirmed when it was to be withdrawn")

    @workflow.signal
    def reported(self, report: Reported) -> None:
        """The provider reports the progress of a message or call, in any order."""
        known = self.reports.get(report.reference)
        if known is None or not known.outlasts(report):
            self.reports[report.reference] = report

    async def _send(
        self, dose: Dose, opening: Opening, suffix: str | None, refused: dict[Channel, str]
    ) -> NotPerformed | None:
        """Send by one channel after the other. Returns None once the reminder is sent, else the reason why it was
        not."""
        for channel in dose.channels:
            if channel in refused:
                continue
            effect = SEND_SMS if channel is Channel.SMS else PLACE_CALL
            reference = reference_of(Key.of(self.entity, effect.identity, suffix))
            end = await self.perform(
                effect,
                Notice(to=dose.to, text=dose.text, language=dose.language, until=opening.until),
                entering=Reminder.SENDING,
                then=Reminder.ACCEPTED if dose.confirm else Reminder.SENT,
                suffix=suffix,
                expires_at=opening.until,
                confirmed_by=partial(self._accepted, reference),
            )
            match end:
                case Done(accepted):
                    problem = await self._confirmed(reference, accepted, opening.until) if dose.confirm else None
                    if problem is None:
                        return None
                    refused[channel] = problem
                case WasRefused(why):
                    refused[channel] = why
                case _:
                    return end
        return WasRefused("; ".join(f"{channel}: {why}" for channel, why in refused.items()))

    async def _confirmed(self, reference: str, accepted: Accepted, until: datetime) -> str | None:
        """Why the reminder did not arrive; None, and it is recorded as sent, without a report of a failure."""

        def last() -> Accepted | Reported:
            report = self.reports.get(reference)
            return accepted if report is None or accepted.outlasts(report) else report

        # A report proves that the provider sends reports, even if the receipt of the request was lost.
        if accepted.confirms_within is not None or reference in self.reports:
            within = workflow.now() + accepted.confirms_within if accepted.confirms_within is not None else until
            await self.wait_for(lambda: last().final, until=min(until, within))
        if last().failed:
            code = self.reports[reference].code if reference in self.reports else None
            return f"{last().status} (error {code})" if code else last().status
        await self.enter(Reminder.SENT, why=last().status if reference in self.reports else "accepted")
        return None

    def _accepted(self, reference: str) -> Accepted | None:
        """The receipt if the provider has reported about this reference, because it has accepted it then; else None."""
        report = self.reports.get(reference)
        return Accepted(sid=report.sid, status=report.status) if report else None
