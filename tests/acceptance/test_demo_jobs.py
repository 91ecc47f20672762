"""`make demo-jobs`, with fewer children, does each job once and loses none, as the pages count them."""

from __future__ import annotations

import asyncio

from infra.browsing import Browser
from infra.demos.job_pages import FILES, missing
from tests.acceptance.demos import played


async def find_doubt(console: str) -> None:
    """The inbox has the call that its page answered too late, with what each answer would do."""
    browser = await asyncio.to_thread(Browser, f"{console}inbox")
    assert "1 in doubt: call-page-inline of web-job no answer within 4 s" in browser.words
    await asyncio.to_thread(browser.choose, "Settle")
    assert "web-job/late" in browser.words


async def test_the_demo_of_jobs_loses_nothing_does_nothing_twice_and_leaves_a_doubt_and_nothing_running() -> None:
    arguments = ("--children", "30")
    counted = await played("infra.demos.jobs", *arguments, counts="demo-jobs.json", processes=7, visited=find_doubt)
    del counted["seconds"]
    assert counted.pop("dropped") > 0, "nothing was called again: the kills hit nothing that was under way"
    assert counted == {
        "children": 30,
        "done": 29,
        "failed": 1,
        "lost": 0,
        "twice": 0,
        "master": "complete",
        "languages": sum(missing(language) is None for language in FILES),
        "workers_killed": 1,
        "pages_killed": 1,
    }
