"""`make demo` does each notification once, loses none, leaves doubts that its console settles, and nothing running."""

from __future__ import annotations

import asyncio

from tests.acceptance.demos import played, settled_as_not_done
from tests.deadline import until


async def settle(console: str) -> None:
    """Answer for one of the mails that are in doubt, as a visitor does."""
    group = "in doubt: send-mail of comment-notification"
    browser = await settled_as_not_done(console, group, "it is not in the maildir")

    def is_sent() -> bool:
        browser.load()
        return "ended as sent" in browser.words

    await until(lambda: asyncio.to_thread(is_sent), "the mail that was sent again")


async def test_the_demo_loses_nothing_sends_nothing_twice_and_leaves_doubts_to_settle_and_nothing_running() -> None:
    counted = await played("infra.demos.comments", counts="demo.json", processes=6, visited=settle)
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
