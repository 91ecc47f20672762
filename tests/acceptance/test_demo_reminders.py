"""`make demo-reminders`, for the patients with a story, sends what was due, as the provider counts it."""

from __future__ import annotations

import pytest

from tests.acceptance.demos import played

REAL = {
    "PERDURE_KEYS": "a:QUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUE=",
    "PERDURE_TELEPHONY_API_KEY_SID": "SK" + "1" * 32,
    "PERDURE_TELEPHONY_API_KEY_SECRET": "secret",
    "PERDURE_TELEPHONY_CALLER": "+12025550199",
}
"""Settings of somebody's shell, for the real provider: the demo must not use them."""


async def test_the_demo_of_reminders_loses_nothing_sends_nothing_twice_and_leaves_nothing_running(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name, value in REAL.items():
        monkeypatch.setenv(name, value)
    counted = await played("infra.demos.reminders", "--patients", "14", counts="demo-reminders.json", processes=2)
    del counted["seconds"]
    assert 38 < counted.pop("hours") < 41
    assert counted == {
        "patients": 14,
        "zones": 5,
        "unusable": 1,
        "doses": 21,
        "sent": 15,
        "expired": 3,
        "refused": 2,
        "withdrawn": 1,
        "by_sms": 10,
        "by_call": 5,
        "settled_by_callback": 1,
        "settled_by_look_up": 1,
        "in_doubt": 1,
        "lost": 0,
        "twice": 0,
        "unasked": 0,
    }
