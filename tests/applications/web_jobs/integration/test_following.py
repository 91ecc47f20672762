"""A page that is at work is asked on through deploys, kills and a type that is disabled, and leaves no doubt."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest
from aiohttp import web

from activities.web_jobs.settings import web_settings
from tests.applications.web_jobs.conftest import Jobs
from tests.applications.web_jobs.integration.test_families import asked, lists
from tests.pages import answers
from workers.web_jobs.app import app

SHORTLY = timedelta(seconds=4)


async def is_asked(jobs: Jobs) -> None:
    """Wait until the page was asked how far it is."""

    async def so() -> bool:
        return bool(asked(jobs, "/status"))

    await jobs.world.until(so, "asked how far it is")


@pytest.fixture
def over(jobs: Jobs) -> asyncio.Event:
    """Set, the page has ended: until then it answers 202, and afterwards with its `end`."""
    return asyncio.Event()


def works(jobs: Jobs, over: asyncio.Event, end: int = 200) -> None:
    """Let the page be at work until `over`, and answer with `end` then."""

    async def status(_: web.Request) -> web.StreamResponse:
        return web.json_response({}, status=end if over.is_set() else 202)

    jobs.pages.replies["/page"] = [answers(status=202, Location="/status"), answers({})]
    jobs.pages.replies["/status"] = [status]


async def test_a_job_whose_page_worked_for_too_long_can_be_restarted_after_a_deploy(
    jobs: Jobs, over: asyncio.Event
) -> None:
    await jobs.type(timeout=SHORTLY, within=timedelta(seconds=8))
    works(jobs, over)
    async with jobs.world.worker(app):
        await jobs.insert()
        await is_asked(jobs)
    async with jobs.world.worker(app):
        assert await jobs.ended() == "failed"
        assert await jobs.why() == "the page has not ended in its time: still at work"
        assert (await jobs.effects())["follow-page"] == "refused"
        await jobs.world.client.restart("web-job", "1", by="ann", note="again")
        assert await jobs.ended() == "complete"
    assert len(asked(jobs, "/page")) == 2


async def test_a_master_runs_a_child_again_whose_poll_a_deploy_had_cut_off(jobs: Jobs, over: asyncio.Event) -> None:
    await jobs.type("master", children=["page"])
    await jobs.type(timeout=SHORTLY)
    works(jobs, over, end=422)
    jobs.pages.replies["/master"] = [lists("1")]
    async with jobs.world.worker(app):
        await jobs.insert("m", "master")
        await is_asked(jobs)
    over.set()
    async with jobs.world.worker(app):
        assert await jobs.ended("m") == "failed"
        await jobs.world.client.restart("web-job", "m", by="ann", note="mended")
        assert await jobs.ended("m") == "complete"
    assert len(asked(jobs, "/page")) == 2


async def test_disabling_a_type_loses_no_job_whose_page_is_at_work(jobs: Jobs, over: asyncio.Event) -> None:
    await jobs.type(timeout=SHORTLY, within=timedelta(seconds=30))
    works(jobs, over)
    async with jobs.world.worker(app):
        await jobs.insert()
        await is_asked(jobs)
        await jobs.db.execute("update web_job.type set disabled = 'night' where name = 'page'")
    over.set()  # the page ends in time
    async with jobs.world.worker(app):
        assert await jobs.ended() == "complete"


@pytest.mark.parametrize(("ok", "poll", "end"), [(True, 404, "complete"), (False, 200, "failed")])
async def test_a_callback_ends_the_job_of_a_page_that_is_polled_whatever_the_next_poll_answers(
    jobs: Jobs, over: asyncio.Event, monkeypatch: pytest.MonkeyPatch, ok: bool, poll: int, end: str
) -> None:
    monkeypatch.setenv("PERDURE_WEB_CALLBACK_URL", "https://jobs.example.org/said")
    monkeypatch.setenv("PERDURE_WEB_CALLBACK_SECRET", "known to the workers alone")
    web_settings.cache_clear()
    await jobs.type(callback=True, timeout=SHORTLY)
    works(jobs, over, end=poll)
    async with jobs.world.worker(app):
        await jobs.insert()
        await is_asked(jobs)
        [token] = [each.headers["perdure-callback"][-64:] for each in jobs.pages.asked if each.path == "/page"]
        called_back = "select web_job.called_back($1, $2, '7', 'no paper')"
        assert await jobs.db.fetchval(called_back, token, ok) == "accepted"
        over.set()
        assert await jobs.ended() == end
    assert await jobs.why() == ("called back" if ok else "no paper")
    assert await jobs.db.fetchval("select body from web_job.result") == "7"
