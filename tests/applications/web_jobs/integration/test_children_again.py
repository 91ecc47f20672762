"""A restarted master runs its failed children again, or their rows show why it could not."""

from __future__ import annotations

from perdure._retention.dropping import drop
from perdure._retention.months import the_month
from tests.applications.web_jobs.conftest import Jobs
from tests.applications.web_jobs.integration.test_families import asked, led, lists, rests
from tests.pages import answers, closes
from workers.web_jobs.app import app


async def test_failed_children_whose_month_was_dropped_are_run_again_from_their_rows(jobs: Jobs) -> None:
    jobs.pages.replies["/master"] = [lists("1", "2")]
    jobs.pages.replies["/page"] = [answers(status=422), answers(status=422), answers({})]
    async with led(jobs):
        await jobs.insert("m", "master")
        assert await jobs.ended("m") == "failed"
        await rests(jobs)
        month = await jobs.db.fetchval("select date_trunc('month', now() at time zone 'UTC')::date")
        await drop(jobs.db, await the_month(jobs.db, month), lambda _: None, without_export=True)
        await jobs.db.execute("select perdure.make_months()")
        restart = "select perdure.restart('web-job', id, 'ann', 'mended', web_job.input(j)) from web_job.job j"
        await jobs.db.execute(f"{restart} where id = 'm'")
        assert await jobs.ended("m") == "complete"
    assert sorted(asked(jobs, "/page")) == ["m/1", "m/1", "m/2", "m/2"]


async def test_the_row_of_a_child_that_can_not_be_run_again_shows_why_until_it_is(jobs: Jobs) -> None:
    """The call of the child ended in doubt: its tries were used up by a definite no after a broken connection."""
    await jobs.type("master", children=["page"])
    await jobs.type(doubt="repeat", tries=1)
    jobs.pages.replies["/master"] = [lists("1")]
    jobs.pages.replies["/page"] = [closes(), answers(status=429), answers({})]
    why = "select why from web_job.job where id = 'm/1'"
    async with jobs.world.worker(app):
        await jobs.insert("m", "master")
        assert await jobs.ended("m") == "failed"
        await jobs.world.client.restart("web-job", "m", by="ann", note="mended")
        assert await jobs.ended("m") == "failed"
        assert await jobs.db.fetchval(why) == "perdure.restart: whether 'web-job/m%2F1/call-page' happened is not known"
        await jobs.db.execute("select perdure.resolve('web-job', 'm/1', null, 'abandoned', 'ann', 'it is not there')")
        await jobs.world.client.restart("web-job", "m", by="ann", note="mended")
        assert await jobs.ended("m") == "complete"
    assert await jobs.db.fetchval(why) is None
