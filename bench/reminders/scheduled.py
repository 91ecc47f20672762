"""Reminders as Temporal's Schedules give them: one schedule a patient, which starts a workflow of one activity.

`python -m bench.reminders.scheduled TASK_QUEUE` is its worker. An attempt that may have been accepted is made again:
nothing keeps it from being sent twice, nothing expires, and no state is seen in the app's database.
"""

from __future__ import annotations

import asyncio
import os
import sys
from dataclasses import dataclass
from datetime import datetime, timedelta

from temporalio import activity, workflow

with workflow.unsafe.imports_passed_through():
    import aiohttp
    from temporalio.client import (
        Client,
        Schedule,
        ScheduleActionStartWorkflow,
        ScheduleCalendarSpec,
        ScheduleRange,
        ScheduleSpec,
    )
    from temporalio.worker import Worker


@dataclass
class Text:
    """A text message."""

    patient: str
    to: str
    text: str


@activity.defn
async def send_text(text: Text) -> str:
    """Hand it over; the id of the patient stands where a reference does."""
    account, token = os.environ["PERDURE_TELEPHONY_ACCOUNT_SID"], os.environ["PERDURE_TELEPHONY_AUTH_TOKEN"]
    url = f"{os.environ['PERDURE_TELEPHONY_API_URL']}/2010-04-01/Accounts/{account}/Messages.json"
    form = {"To": text.to, "From": os.environ["PERDURE_TELEPHONY_SENDER"], "Body": f"{text.text} Ref. {text.patient}"}
    async with (
        aiohttp.ClientSession(auth=aiohttp.BasicAuth(account, token)) as session,
        session.post(url, data=form) as answer,
    ):
        answer.raise_for_status()
        return str((await answer.json())["sid"])


@workflow.defn
class Remind:
    """Sends one reminder."""

    @workflow.run
    async def run(self, text: Text) -> str:
        """Send it."""
        return await workflow.execute_activity(send_text, text, start_to_close_timeout=timedelta(seconds=15))


def schedule_at(when: datetime, text: Text, task_queue: str) -> Schedule:
    """Every day at that time of day, UTC."""
    spec = ScheduleCalendarSpec(
        hour=[ScheduleRange(when.hour)], minute=[ScheduleRange(when.minute)], second=[ScheduleRange(when.second)]
    )
    action = ScheduleActionStartWorkflow(Remind.run, text, id=f"remind-{text.patient}", task_queue=task_queue)
    return Schedule(action=action, spec=ScheduleSpec(calendars=[spec]))


async def main(task_queue: str) -> None:
    """Work."""
    client = await Client.connect(os.environ["TEMPORAL_ADDRESS"])
    async with Worker(client, task_queue=task_queue, workflows=[Remind], activities=[send_text]):
        print("perdure.worker: running", flush=True)
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
