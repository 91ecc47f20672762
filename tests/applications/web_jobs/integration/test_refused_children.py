"""A child that can't become a job leaves a record with the reason at its master, and holds up nobody."""

from __future__ import annotations

import asyncpg
import pytest

from tests.applications.web_jobs.conftest import Jobs
from tests.applications.web_jobs.integration.test_families import asked, counts, led, lists, restart
from tests.pages import answers

REFUSED = "select id, why from web_job.refused_child where master = 'm' order by page, id"
TAKEN = "its id is taken by a job of type 'page', which is complete and no child of 'm'"
GONE = "its id was used before, by a job whose row is gone"


async def a_job(jobs: Jobs, id: str) -> None:
    """A job that is complete and shows it."""
    await jobs.insert(id)
    assert await jobs.ended(id) == "complete"
    await jobs.shows(id, "complete")


async def test_children_whose_ids_are_taken_are_named_at_their_master_and_their_siblings_go_on(jobs: Jobs) -> None:
    further = f"{jobs.pages.origin}/further"
    jobs.pages.replies["/master"] = [lists("first", "taken", "gone", next=further)]
    jobs.pages.replies["/further"] = [lists("taken", "taken-too", "last")]
    async with led(jobs):
        for id in ("m/taken", "m/gone", "m/taken-too"):
            await a_job(jobs, id)
        await jobs.db.execute("delete from web_job.job where id = 'm/gone'")
        await jobs.insert("m", "master")
        assert await jobs.ended("m") == "failed"
        why = f"children: 2 done, 0 failed, 3 not created, 0 left of 5; the first of these: 'gone': {GONE}"
        assert await jobs.why("m") == why
        assert await counts(jobs, "m") == "done=2 refused=3"
        refused = {row["id"]: row["why"] for row in await jobs.db.fetch(REFUSED)}
        assert refused == {"taken": TAKEN, "gone": GONE, "taken-too": TAKEN}

        with pytest.raises(asyncpg.UniqueViolationError, match=r"m/last.*its id is taken"):
            await jobs.db.execute("select web_job.list_child('m', 'taken', 'last')")
        with pytest.raises(asyncpg.NoDataFoundError, match="'m' has no refused child 'last'"):
            await jobs.db.execute("select web_job.list_child('m', 'last', null)")
        for id in ("taken", "taken-too"):
            await jobs.db.execute("select web_job.list_child('m', $1, $1 || '-again')", id)
        await jobs.db.execute("select web_job.list_child('m', 'gone', null)")
        assert await counts(jobs, "m") == "waiting=2 done=2"
        await restart(jobs, "m")
        assert await jobs.ended("m") == "complete"
        assert await counts(jobs, "m") == "done=4"
    assert (asked(jobs, "/master"), asked(jobs, "/further")) == (["m"], ["m"])
    called = sorted(asked(jobs, "/page"))
    assert called == ["m/first", "m/gone", "m/last", "m/taken", "m/taken-again", "m/taken-too", "m/taken-too-again"]


async def test_a_family_may_tolerate_children_that_can_not_be_created(jobs: Jobs) -> None:
    jobs.pages.replies["/master"] = [lists("taken", "fails", "other", tolerates=2)]
    jobs.pages.replies["/page"] = [answers(), answers({}, 422), answers()]
    async with led(jobs):
        await a_job(jobs, "m/taken")
        await jobs.insert("m", "master")
        assert await jobs.ended("m") == "complete"
        assert (await jobs.why("m") or "").startswith("children: 1 done, 1 failed, 1 not created, 0 left of 3; ")


async def test_a_child_that_is_larger_as_jsonb_than_a_start_may_be_holds_up_nobody(jobs: Jobs) -> None:
    """1e300 has five characters in JSON, and 301 digits in PostgreSQL."""
    children = [{"id": "large", "type": "page", "payload": [1e300] * 20_000}, {"id": "small", "type": "page"}]
    jobs.pages.replies["/master"] = [answers({"children": children})]
    async with led(jobs):
        await jobs.insert("m", "master")
        assert await jobs.ended("m") == "failed"
        assert await counts(jobs, "m") == "done=1 refused=1"
        [(id, why)] = await jobs.db.fetch(REFUSED)
        assert (id, why.endswith(" bytes are too many")) == ("large", True)


async def test_a_child_that_is_listed_again_is_started_by_its_open_master(jobs: Jobs) -> None:
    jobs.pages.replies["/master"] = [lists("taken", "held", type="held", window=10)]
    async with led(jobs, held="/page"):
        await a_job(jobs, "m/taken")
        await jobs.db.execute("update web_job.type set disabled = 'later' where name = 'held'")
        await jobs.insert("m", "master")
        await jobs.shows("m/held", "held")
        await jobs.db.execute("select web_job.list_child('m', 'taken', 'other')")
        await jobs.shows("m/other", "held")
        await jobs.db.execute("update web_job.type set disabled = null")
        await jobs.db.execute("select web_job.release('held')")
        assert await jobs.ended("m") == "complete"
