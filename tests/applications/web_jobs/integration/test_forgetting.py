"""`perdure forget` of a web job reaches its family, its callbacks, and what its pages have listed."""

from __future__ import annotations

import secrets

from aiohttp import web

from tests.applications.web_jobs.conftest import Jobs
from tests.applications.web_jobs.integration.test_families import counts, led
from tests.erasing import forget, places
from tests.pages import answers

APP = "workers.web_jobs.app:app"


async def test_a_master_is_forgotten_with_its_children_callbacks_and_refused_children(jobs: Jobs) -> None:
    mark = f"Mark3d{secrets.token_hex(6)}"

    async def page(request: web.Request) -> web.StreamResponse:
        return web.json_response({"of": "nobody" if request.headers["perdure-job"] == "other" else mark})

    text = {"params": {"of": mark}, "payload": {"of": mark}}
    listed = [{"id": id, "type": type, **text} for id, type in (("1", "page"), ("2", "page"), ("3", "barred"))]
    jobs.pages.replies["/master"] = [answers({"children": listed, "tolerates": None, "of": mark})]
    jobs.pages.replies["/page"] = [page]
    async with led(jobs):
        await jobs.insert("m", "master", {"of": mark}, of=mark)
        await jobs.insert("other", "page", {"of": "nobody"})
        assert [await jobs.ended(id) for id in ("m", "other")] == ["complete", "complete"]
        assert await counts(jobs, "m") == "done=2 refused=1"
        for id in ("m", "m/1", "m/2"):
            await jobs.world.completed("web-job", id)
    await jobs.db.execute(
        "insert into web_job.callback (digest, job, called_at, report) "
        "values (sha256('token'), 'm/1', now(), jsonb_build_object('of', $1::text))",
        mark,
    )
    planted = await places(jobs.world, mark)
    tables = {f"web_job.{name}" for name in ("job", "callback", "refused_child")}
    assert planted >= {*tables, "web-job/m", "web-job/m/1", "web-job/m/2"}

    status, told = await forget(jobs.world, "web-job", "m", "--app", APP)
    assert status == 0, told
    assert "forgot web-job/m and what belongs to it (2 of web-job)" in told
    assert "the app's rows: 3 of web_job.job\n" in told
    assert "not reached: the pages that were called" in told
    assert [row["id"] for row in await jobs.db.fetch("select id from web_job.job")] == ["other"]
    assert await jobs.db.fetchval("select count(*) from web_job.family") == 0
    await jobs.db.execute("vacuum analyze")
    assert await places(jobs.world, mark) == set()
