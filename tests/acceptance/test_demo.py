"""`make demo` does each notification once, loses none, and leaves nothing running."""

from __future__ import annotations

from tests.acceptance.demos import played


async def test_the_demo_loses_nothing_sends_nothing_twice_and_leaves_nothing_running() -> None:
    counted = await played("infra.demos.comments", counts="demo.json", processes=6)
    told = ("comments", "sent", "lost", "duplicated", "torn", "apps_killed", "workers_killed")
    assert {name: counted[name] for name in told} == {
        "comments": 60,
        "sent": 60,
        "lost": 0,
        "duplicated": 0,
        "torn": 0,
        "apps_killed": 2,
        "workers_killed": 1,
    }
    assert counted["settled_by_lookup"] > 0, "no killed attempt had been accepted: the look-up was not seen at work"
