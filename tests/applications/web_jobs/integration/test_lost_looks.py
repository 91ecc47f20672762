"""A look whose workflow task was lost is not believed again after a newer message has arrived."""

from __future__ import annotations

import asyncio

from tests.applications.web_jobs.conftest import Jobs
from tests.pages import answers, waits_for
from workers.web_jobs.app import app

LOOKS = "select count(*) from perdure.effect where effect like 'advance-family/%' and status = 'done'"
MADE_AND_LOST = """
    insert into perdure.effect
        (key, lifecycle, id, generation, effect, token, status, digest, first_at, attempt_at, deadline, receipt)
    select replace(key, '.1', '.2'), lifecycle, id, generation, replace(effect, '.1', '.2'), token || 'x', status,
        digest, first_at, attempt_at, deadline, receipt
    from perdure.effect where effect like 'advance-family/%'
    returning receipt->>'open'
"""
"""The master's second look was made, and is on record; its worker died before Temporal heard of it."""


async def test_a_master_hears_of_its_children_also_when_it_has_lost_a_look_at_them(jobs: Jobs) -> None:
    last = asyncio.Event()
    jobs.pages.replies["/master"] = [answers({"children": [{"id": "a", "type": "page"}]})]
    jobs.pages.replies["/page"] = [waits_for(last, answers({}))]
    await jobs.type("master", children=["page"])
    await jobs.type("page")
    async with jobs.world.worker(app):
        await jobs.insert("m", "master")
        await jobs.world.until(lambda: [each for each in jobs.pages.asked if each.path == "/page"], "the child called")
        await jobs.world.until(lambda: jobs.db.fetchval(LOOKS), "a look of the master")
        assert await jobs.db.fetchval(MADE_AND_LOST) == "1"
        last.set()
        assert await jobs.world.ended("web-job", "m") == "complete"
