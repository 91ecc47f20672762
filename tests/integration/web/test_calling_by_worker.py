"""The calls of a worker: held, followed, looked up, told of children; its secrets are in no record, history or log."""

from __future__ import annotations

import json
from datetime import timedelta

import pytest

from tests.integration.web.conftest import Jobs
from tests.pages import answers, closes
from workers.web_jobs import app

SECRET = "whsec_" + "QUJD" * 8


async def test_what_a_page_says_decides_what_becomes_of_its_job(
    jobs: Jobs, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("PAGE_SECRET", SECRET)
    caplog.set_level("DEBUG")
    pages, shortly = jobs.pages, timedelta(seconds=4)
    asked = {"doubt": "lookup", "status_url": pages.origin + "/status?id={id}"}
    await jobs.type("followed", signed_with="env:PAGE_SECRET", headers=json.dumps({"Authorization": "Basic d29yZA=="}))
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
    assert all("webhook-signature" in each.headers for each in pages.asked if each.path in ("/followed", "/state"))
    rows = await jobs.db.fetch("select e::text from perdure.effect e")
    told = history.to_json() + caplog.text + "".join(str(row[0]) for row in rows)
    assert [word for word in (SECRET, "QUJD", "d29yZA", "v1,") if word in told] == []
    assert "s3cret" not in caplog.text
