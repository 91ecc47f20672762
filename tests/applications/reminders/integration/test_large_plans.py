"""Changes of the largest plans that wait while no worker runs."""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from typing import Any

from activities.reminders.contracts.plan import MOST_EXCEPTIONS, MOST_RULES
from tests.applications.reminders.conftest import Clinic, a_plan
from workers.reminders.app import app

START = datetime(2030, 3, 1, 8)


def the_largest(hour: int) -> dict[str, Any]:
    """A plan with as many rules and exceptions as it may have, some 400 kB."""
    left_out = [(START + timedelta(days=day)).isoformat(timespec="minutes") for day in range(MOST_EXCEPTIONS)]
    rule = {"rule": f"FREQ=DAILY;BYHOUR={hour}", "start": START.isoformat(), "except_for": left_out}
    return a_plan(*({"id": f"r{number}", **rule} for number in range(MOST_RULES)))


async def test_changes_of_a_large_plan_that_wait_are_executed(quiet_clinic: Clinic) -> None:
    await quiet_clinic.sign_up("jo", the_largest(8), "Africa/Accra")
    for hour in range(6):
        await quiet_clinic.change("jo", plan=json.dumps(the_largest(hour)))

    async def has_the_last_plan() -> bool:
        rule = "snapshot #>> '{patient,plan,rules,0,rule}'"
        row = await quiet_clinic.db.fetchrow(f"select {rule}, snapshot->>'asked' from perdure.entity where id = 'jo'")
        return row is not None and tuple(row) == ("FREQ=DAILY;BYHOUR=5", "[]")

    async with quiet_clinic.world.worker(app):
        await quiet_clinic.world.until(has_the_last_plan, "the last plan is in force")
