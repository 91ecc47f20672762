"""Days that are not like the others, on the time-skipping server: words at the last second, nights, a leap day."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from infra.telephony_faults import Fault
from tests.integration.reminders.conftest import a_plan
from tests.integration.reminders.skipping import DAY, SECOND, Skipping

ACCRA = "Africa/Accra"
"""Where clocks read UTC, always."""
MINUTE = timedelta(minutes=1)
WORDS: dict[str, dict[str, Any]] = {
    "phone": {"phone": "+12025550190"},
    "channel": {"channel": "call"},
    "plan": {"plan": a_plan({"id": "other", "rule": "FREQ=DAILY", "start": "2026-01-01T08:00"})},
    "quiet": {"quiet_hours": {"start": "07:30", "end": "08:15"}},
    "pause": {"paused": True},
    "end": {"signed_off": True},
}


async def test_what_is_said_one_second_before_a_dose_holds_for_it(skipping: Skipping) -> None:
    due, phones = await said_before_it_is_due(skipping)
    assert [each[1] for each in (await went(skipping, name) for name in phones)] == [0] * len(phones)
    for name, count in zip(phones, (1, 1, 1, 0, 0, 0), strict=True):
        await skipping.over(name, count)
    await skipping.to(due + 15 * MINUTE)
    await skipping.over("quiet", 1)
