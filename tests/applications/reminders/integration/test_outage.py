"""A day without a worker, on a time-skipping server of its own: what was missed expires, the next dose is in time."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from temporalio.contrib.pydantic import pydantic_data_converter

from infra.time_skipping import time_skipping_environment
from tests.applications.reminders.conftest import Clinic, a_plan
from tests.applications.reminders.skipping import Skipping

ALONE: dict[str, Any] = {
    "max_cached_workflows": 0,
    "max_concurrent_workflow_task_polls": 1,
    "max_concurrent_activity_task_polls": 1,
}
"""What that server has handed to a worker that is gone, it hands to nobody else for seconds: so as little as can be."""


async def test_after_a_day_of_outage_what_was_missed_is_expired_and_the_next_one_is_sent_in_time(
    quiet_clinic: Clinic,
) -> None:
    async with time_skipping_environment(data_converter=pydantic_data_converter) as environment:
        skipping = Skipping(quiet_clinic, environment)
        today = await skipping.tomorrow()
        due = datetime.fromisoformat(today).replace(tzinfo=UTC)
        async with skipping.working(**ALONE):
            await skipping.sign_up("jo", a_plan({"rule": "FREQ=HOURLY;INTERVAL=8", "start": today}))
            await skipping.to(due)
            await skipping.over("jo", 1)
            await skipping.closed()
        await skipping.while_nobody_works("jo", due + timedelta(hours=26))
        sent_by_then = len(quiet_clinic.telephony.accepted)
        async with skipping.working(**ALONE):
            await skipping.over("jo", 4)
            await skipping.to(due + timedelta(hours=32))
            await skipping.over("jo", 5)
            sent = await skipping.sent("jo")
    became = [(each["state"], each["why"]) for each in await quiet_clinic.doses("jo")]
    assert became == [("sent", None), *[("expired", "it was started too late")] * 3, ("sent", None)]
    assert [f"{at - due}"[:-10] for at in sent] == ["0:00", "1 day, 8:00"]
    assert (sent_by_then, len(quiet_clinic.telephony.accepted)) == (1, 2)
