"""A job that is inserted is called, held, followed and shown; its children are led to their end."""

from __future__ import annotations

from datetime import timedelta

import asyncpg

from tests.applications.web_jobs.conftest import Jobs
from tests.pages import answers
from workers.web_jobs.app import app


async def test_an_inserted_job_is_called_once_and_its_row_shows_it(jobs: Jobs) -> None:
    await jobs.type(timeout=timedelta(seconds=10))
    async with jobs.world.worker(app):
        await jobs.insert(payload={"invoice": 7})
        assert await jobs.ended() == "complete"
    await jobs.shows("1", "complete")
    assert [each.body for each in jobs.pages.asked] == [b'{"invoice":7}']


async def test_a_disabled_type_holds_its_jobs_and_lets_them_go(jobs: Jobs) -> None:
    await jobs.type(disabled="under repair")
    async with jobs.world.worker(app):
        await jobs.insert()
        await jobs.world.is_in("web-job", "1", "held")
        assert await jobs.why() == "the job type page is disabled: under repair"
        await jobs.db.execute("update web_job.type set disabled = null")
        await jobs.db.fetchrow("select * from web_job.release('page')")
        assert await jobs.ended() == "complete"
    assert len(jobs.pages.asked) == 1


async def test_a_job_whose_row_does_not_show_yet_that_it_is_held_is_let_go_as_well(jobs: Jobs) -> None:
    await jobs.type(disabled="under repair")
    await jobs.insert()
    holder = await asyncpg.connect(jobs.world.dsn)
    async with holder.transaction():
        await holder.execute("select from web_job.job for update")
        async with jobs.world.worker(app):
            await jobs.world.is_in("web-job", "1", "held")
            await jobs.db.execute("update web_job.type set disabled = null")
            assert await jobs.db.fetchval("select signalled from web_job.release('page')") == 1
            assert await jobs.db.fetchval("select state from web_job.job") == "scheduled"
            assert await jobs.ended() == "complete"
    await holder.close()


async def test_a_refusal_ends_it_failed(jobs: Jobs) -> None:
    await jobs.type()
    jobs.pages.replies["/page"] = [answers({}, 422)]
    async with jobs.world.worker(app):
        await jobs.insert()
        assert await jobs.ended() == "failed"
    assert await jobs.why() == "answered 422"
