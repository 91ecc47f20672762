"""`make demo-reminders`, for those of its patients who have a story, keeps its word: counted at the provider."""

from __future__ import annotations

from tests.acceptance.demos import played


async def test_the_demo_of_reminders_loses_nothing_sends_nothing_twice_and_leaves_nothing_running() -> None:
    counted = await played("infra.demo_reminders", "--patients", "14", counts="demo-reminders.json", processes=2)
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
