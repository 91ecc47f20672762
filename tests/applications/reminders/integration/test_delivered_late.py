"""A patient who signed up in time is reminded, however late Temporal hears of it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from activities.reminders.contracts.calendar.spread import spread_of
from activities.reminders.contracts.plan import Due, Plan
from tests.applications.reminders.conftest import Clinic, a_plan
from workers.reminders.app import app


async def test_a_dose_that_comes_due_before_temporal_hears_of_the_patient_is_sent(quiet_clinic: Clinic) -> None:
    goes_at = await signed_up_in_time(quiet_clinic)
    await quiet_clinic.world.until(lambda: datetime.now(UTC) > goes_at, "the dose is due")
    async with quiet_clinic.world.worker(app):
        await quiet_clinic.sent("jo", 1)
    [dose] = await quiet_clinic.doses("jo")
    assert dose["state"] == "sent"
    assert len(quiet_clinic.telephony.accepted) == 1


async def signed_up_in_time(clinic: Clinic) -> datetime:
    """Sign up a patient whose only dose goes a moment later, as short as this machine can; when it goes."""
    left = timedelta(seconds=0.3)
    while True:
        goes_at, plan = a_plan_for(datetime.now(UTC) + left)
        signing_up = clinic.db.transaction()
        await signing_up.start()
        await clinic.sign_up("jo", plan, "UTC")
        if await clinic.db.fetchval("select clock_timestamp() < $1", goes_at):
            await signing_up.commit()
            return goes_at
        await signing_up.rollback()
        left *= 2


def a_plan_for(earliest: datetime) -> tuple[datetime, dict[str, object]]:
    """A plan whose only dose goes within half a second of a moment, and when that is: its rule's id is chosen so."""
    start = earliest.replace(second=0, microsecond=0, tzinfo=None)
    for number in range(100_000):
        plan = a_plan(
            {
                "id": f"rule-{number}",
                "rule": "FREQ=DAILY;COUNT=1",
                "start": start.isoformat(),
                "window": "PT2H",
                "spread": "PT1M30S",
            }
        )
        [rule] = Plan.model_validate(plan).rules
        at = start.replace(tzinfo=UTC)
        goes_at = at + spread_of("jo", rule, Due(rule.id, start, at))
        if earliest <= goes_at < earliest + timedelta(seconds=0.5):
            return goes_at, plan
    raise AssertionError("no such rule")
