"""`make demo-reminders`, for the patients with a story, sends what was due; the doubt that it leaves can be settled."""

from __future__ import annotations

import pytest

from tests.acceptance.demos import played, settled_as_not_done

REAL = {
    "PERDURE_KEYS": "a:QUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUE=",
    "PERDURE_TELEPHONY_API_KEY_SID": "SK" + "1" * 32,
    "PERDURE_TELEPHONY_API_KEY_SECRET": "secret",
    "PERDURE_TELEPHONY_CALLER": "+12025550199",
}
"""Settings of somebody's shell, for the real provider: the demo must not use them."""


async def settle(console: str) -> None:
    """Answer for the dose whose outcome nobody knew when its window was over, as a visitor does."""
    group = "1 in doubt: send-sms of dose"
    browser = await settled_as_not_done(console, group, "the patient has got nothing")
    assert "send-sms resolved as not_done" in browser.words


async def test_the_demo_of_reminders_loses_nothing_sends_nothing_twice_and_leaves_nothing_running(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name, value in REAL.items():
        monkeypatch.setenv(name, value)
    arguments = ("--patients", "14")
    counted = await played(
        "infra.demos.reminders", *arguments, counts="demo-reminders.json", processes=2, visited=settle
    )
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
