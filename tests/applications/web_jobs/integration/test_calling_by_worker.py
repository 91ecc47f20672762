"""A worker calls, follows and looks up jobs and gets their children; its secrets stand in no record, history or log."""

from __future__ import annotations

import json
from datetime import timedelta

import asyncpg
import pytest
from aiohttp import web

from tests.applications.web_jobs.conftest import Jobs
from tests.pages import answers, closes
from workers.web_jobs.app import app

SECRET = "whsec_" + "QUJD" * 8


async def test_the_answer_of_a_page_decides_the_end_of_its_job(
    jobs: Jobs, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("PAGE_SECRET", SECRET)
    caplog.set_level("DEBUG")
    pages, shortly = jobs.pages, timedelta(seconds=4)
    asked = {"doubt": "lookup", "status_url": pages.origin + "/status?id={id}"}
    secret_header = json.dumps({"Authorization": "Basic d29yZA=="})
    await jobs.type("followed", signed_with="env:PAGE_SECRET", headers=secret_header, children=["child"])
    await jobs.type("looked-up", timeout=shortly, **asked)
    await jobs.type("child", timeout=shortly)
    await jobs.type("elsewhere", url="http://elsewhere.example/")
    pages.replies["/followed"] = [answers({}, 202, Location="/state")]
    pages.replies["/state"] = [
        answers({}, 202, Retry_After="0"),
        answers({"children": [{"id": "a", "type": "child"}]}, Link='</more>; rel="next"'),
    ]
    pages.replies["/more"] = [answers({"children": [{"id": "b", "type": "child"}]})]
    pages.replies["/looked-up"] = [closes()]
    pages.replies["/status"] = [answers({}, 500), answers({"found": True})]
    async with jobs.world.worker(app):
        for name in ("followed", "looked-up", "elsewhere"):
            await jobs.insert(name, name, payload={"word": "s3cret"})
        assert {name: await jobs.ended(name) for name in ("followed", "looked-up")} == {
            "followed": "complete",
            "looked-up": "complete",
        }
        await jobs.world.is_in("web-job", "elsewhere", "held")
        history = await jobs.world.handle("web-job", "followed").fetch_history()
    assert await jobs.why("followed") == "children: 2 done, 0 failed, 0 left of 2"
    assert await jobs.why("elsewhere") == (
        "the job type elsewhere can't be called: PERDURE_WEB_ORIGINS does not list http://elsewhere.example"
    )
    assert len(pages.keys("/looked-up")) == pages.keys("/looked-up").total() == 1
    keys = {each.headers["idempotency-key"] for each in pages.asked if each.path in ("/followed", "/state", "/more")}
    assert keys == {'"web-job/followed/call-page"'}
    assert all("signature" in each.headers for each in pages.asked if each.path in ("/followed", "/state"))
    rows = await jobs.db.fetch("select e::text from perdure.effect e")
    told = history.to_json() + caplog.text + "".join(str(row[0]) for row in rows)
    assert [word for word in (SECRET, "QUJD", "d29yZA", "sig1=") if word in told] == []
    assert "s3cret" not in caplog.text


async def test_a_page_that_is_known_to_be_at_work_is_not_called_again(jobs: Jobs) -> None:
    """The page is at work for as long as its call is in doubt: with `otherwise` it was called twice."""

    async def status_of(_: web.Request) -> web.StreamResponse:
        known = await pool.fetchval("select status from perdure.effect where effect = 'call-page-inline'")
        if known == "done":
            return web.json_response({"n": 1})
        return web.json_response({}, status=202, headers={"Retry-After": "20"})

    status = jobs.pages.origin + "/status?id={id}"
    await jobs.type(timeout=timedelta(seconds=2), doubt="lookup", status_url=status, otherwise="repeat")
    jobs.pages.replies["/page"] = [closes()]
    jobs.pages.replies["/status"] = [status_of]
    async with asyncpg.create_pool(jobs.world.dsn, min_size=1, max_size=2) as pool, jobs.world.worker(app):
        await jobs.insert()
        assert await jobs.ended() == "complete"
    assert jobs.pages.keys("/page").total() == 1


async def test_a_repeat_that_is_refused_by_one_that_does_not_know_the_key_ends_no_doubt(jobs: Jobs) -> None:
    """The first call was done. The 404 is of a proxy, the 410 of a page that the first call has removed."""
    await jobs.type(timeout=timedelta(seconds=2), doubt="dedupe", remembers=timedelta(hours=1))
    jobs.pages.replies["/page"] = [closes(), answers({}, 404), answers({}, 410), answers({}, 308), answers({"n": 1})]
    async with jobs.world.worker(app):
        await jobs.insert()
        assert await jobs.ended() == "complete"
    assert sorted(jobs.pages.keys("/page").values()) == [5]


async def test_an_answer_of_the_status_url_that_can_not_be_used_fails_the_job_that_was_done(jobs: Jobs) -> None:
    status = jobs.pages.origin + "/status?id={id}"
    await jobs.type(timeout=timedelta(seconds=2), doubt="lookup", status_url=status, otherwise="repeat")
    jobs.pages.replies["/page"] = [closes()]
    jobs.pages.replies["/status"] = [answers({"children": [{"id": "a/b", "type": "page"}]})]
    async with jobs.world.worker(app):
        await jobs.insert()
        assert await jobs.ended() == "failed"
    assert (await jobs.why() or "").startswith("answered 200, so it was called; but its children can't be used: ")
    assert jobs.pages.keys("/page").total() == 1
