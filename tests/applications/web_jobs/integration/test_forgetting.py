"""`perdure forget` of a web job reaches its family, its callbacks, and what its pages have listed."""

from __future__ import annotations

import asyncio
import secrets

import pytest
from aiohttp import web

from tests.applications.web_jobs.conftest import Jobs
from tests.applications.web_jobs.integration.test_families import COUNTED, asked, comes_to, counts, led, lists, restart
from tests.erasing import forget, places
from tests.pages import answers
from workers.web_jobs.app import app

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


async def test_a_family_does_not_forget_that_a_forgotten_child_had_failed_until_its_master_is_restarted(
    jobs: Jobs,
) -> None:
    go = asyncio.Event()

    async def page(request: web.Request) -> web.StreamResponse:
        if request.headers["perdure-job"] == "m/1":
            return web.Response(status=422)
        await go.wait()
        return web.json_response({})

    jobs.pages.replies["/master"] = [lists("1", "2")]
    jobs.pages.replies["/page"] = [page]
    await jobs.type("master", children=["page"])
    await jobs.type()
    async with jobs.world.worker(app):
        await jobs.insert("m", "master")
        await comes_to(jobs, "m", "open=1 failed=1")
        await jobs.world.completed("web-job", "m/1")
        status, told = await forget(jobs.world, "web-job", "m/1", "--app", APP)
        assert status == 0, told
        go.set()
        assert await jobs.ended("m") == "failed"
        assert await jobs.why("m") == "children: 1 done, 1 failed, 0 left of 2"
        await restart(jobs, "m")
        assert await jobs.ended("m") == "complete"
        assert await jobs.why("m") == "children: 1 done, 0 failed, 0 left of 1"
    assert sorted(asked(jobs, "/page")) == ["m/1", "m/2"]
    assert await jobs.db.fetch(COUNTED) == []


@pytest.mark.parametrize(
    ("state", "final", "left"),
    [
        ("listed", None, ""),
        ("processing", None, ""),
        ("processing", "failed", "failed=1"),
        ("complete", "complete", "done=1"),
        ("cancelled", "cancelled", "cancelled=1"),
        ("listed", "failed", ""),
    ],
)
async def test_a_deleted_child_stays_counted_if_it_has_ended_also_where_its_row_does_not_show_that_yet(
    jobs: Jobs, state: str, final: str | None, left: str
) -> None:
    await jobs.db.execute("insert into web_job.family (master, window_size) values ('m', 50)")
    add = "insert into web_job.job (id, type, parent, state) values ('m/1', 'page', 'm', $1)"
    await jobs.db.execute(add, "listed")
    await jobs.db.execute("update web_job.job set state = $1 where id = 'm/1'", state)
    ident = "insert into perdure.ident (lifecycle, id, generation, final) values ('web-job', 'm/1', 0, $1)"
    await jobs.db.execute(ident, final)
    await jobs.db.execute("delete from web_job.job where id = 'm/1'")
    assert await counts(jobs, "m") == left
