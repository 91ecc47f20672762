"""An attacker who holds one page starts no job of a type that its own does not name, and no endless tree of jobs."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import asyncpg
import pytest

from tests.applications.web_jobs.conftest import Jobs
from tests.pages import answers
from workers.web_jobs.app import app

REFUSED = "select master, id, why from web_job.refused_child order by master, id"


async def the_types(jobs: Jobs, **columns: Any) -> None:
    """A page that an attacker holds, and a type that moves money: it has nothing to do with that page."""
    await jobs.type("page", timeout=timedelta(seconds=5), **columns)
    await jobs.type("pay-out", timeout=timedelta(seconds=5))


async def test_a_page_can_not_start_a_job_of_a_type_that_its_own_type_does_not_name(jobs: Jobs) -> None:
    payment = {"id": "1", "type": "pay-out", "payload": {"to": "the attacker", "amount": 1_000_000}}
    jobs.pages.replies["/page"] = [answers({"children": [payment]})]
    await the_types(jobs)
    async with jobs.world.worker(app):
        await jobs.insert("m")
        assert await jobs.ended("m") == "failed"
    assert jobs.pages.keys("/pay-out").total() == 0
    why = "the job type 'page' does not name 'pay-out' among its children"
    assert [tuple(row) for row in await jobs.db.fetch(REFUSED)] == [("m", "1", why)]
    assert (await jobs.why("m") or "").endswith(f"1 not created, 0 left of 1; the first of these: '1': {why}")


async def test_a_page_that_lists_itself_comes_to_an_end(jobs: Jobs) -> None:
    """Without a limit each job begins another one, for ever, and each of them is signed."""
    jobs.pages.replies["/page"] = [answers({"children": [{"id": "1", "type": "page"}], "tolerates": None})]
    await the_types(jobs, children=["page"], max_depth=2)
    async with jobs.world.worker(app):
        await jobs.insert("m")
        assert await jobs.ended("m") == "complete"
    assert sorted(each.headers["perdure-job"] for each in jobs.pages.asked) == ["m", "m/1", "m/1/1"]
    why = "the job type 'page' allows 2 level(s) of children, and its master stands on the last"
    assert [tuple(row) for row in await jobs.db.fetch(REFUSED)] == [("m/1/1", "1", why)]


async def test_a_refused_child_is_listed_again_only_when_its_type_is_allowed(jobs: Jobs) -> None:
    jobs.pages.replies["/page"] = [answers({"children": [{"id": "1", "type": "pay-out"}]})]
    await the_types(jobs)
    again = "select web_job.list_child('m', '1', '1')"
    async with jobs.world.worker(app):
        await jobs.insert("m")
        assert await jobs.ended("m") == "failed"
        with pytest.raises(asyncpg.InsufficientPrivilegeError, match="does not name 'pay-out' among its children"):
            await jobs.db.execute(again)
        await jobs.db.execute("update web_job.type set children = '{pay-out}' where name = 'page'")
        await jobs.db.execute(again)
        await jobs.world.client.restart("web-job", "m", by="ann", note="now it may")
        assert await jobs.ended("m") == "complete"
    assert jobs.pages.keys("/pay-out").total() == 1


async def test_a_further_page_of_a_list_is_bound_by_the_same_rule(jobs: Jobs) -> None:
    further = f'<{jobs.pages.origin}/further>; rel="next"'
    first = {"children": [{"id": "1", "type": "leaf"}], "tolerates": None}
    jobs.pages.replies["/page"] = [answers(first, Link=further)]
    jobs.pages.replies["/further"] = [answers({"children": [{"id": "2", "type": "pay-out"}]})]
    await the_types(jobs, children=["leaf"])
    await jobs.type("leaf", timeout=timedelta(seconds=5))
    async with jobs.world.worker(app):
        await jobs.insert("m")
        assert await jobs.ended("m") == "complete"
    assert jobs.pages.keys("/pay-out").total() == 0
    assert [row["id"] for row in await jobs.db.fetch(REFUSED)] == ["2"]


async def test_whether_a_type_is_allowed_is_asked_once_for_each_type_and_not_for_each_child(jobs: Jobs) -> None:
    """10,000 children took longer than a statement may."""
    await the_types(jobs, children=["leaf"])
    await jobs.type("leaf")
    await jobs.insert("m")
    types = ("leaf", "pay-out", "page")
    children = json.dumps([{"id": str(n), "type": types[n % 3]} for n in range(300)])
    await jobs.db.execute("set track_functions = 'pl'")
    async with jobs.db.transaction():
        await jobs.db.execute("select web_job.list_children('m', 0, $1, null)", children)
        asked = "select pg_stat_get_xact_function_calls('web_job.barred(text, text)'::regprocedure)"
        assert await jobs.db.fetchval(asked) == len(types)
    assert await jobs.db.fetchval("select count(*) from web_job.refused_child") == 200
