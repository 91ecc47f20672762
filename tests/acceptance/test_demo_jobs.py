"""`make demo-jobs`, with fewer children, does each job once and loses none, as the pages count them."""

from __future__ import annotations

from infra.demos.job_pages import FILES, missing
from tests.acceptance.demos import played


async def test_the_demo_of_jobs_loses_nothing_does_nothing_twice_and_leaves_nothing_running() -> None:
    counted = await played("infra.demos.jobs", "--children", "30", counts="demo-jobs.json", processes=7)
    del counted["seconds"]
    assert counted.pop("dropped") > 0, "nothing was called again: the kills hit nothing that was under way"
    assert counted == {
        "children": 30,
        "done": 29,
        "failed": 1,
        "lost": 0,
        "twice": 0,
        "master": "complete",
        "languages": sum(missing(language) is None for language in FILES),
        "workers_killed": 1,
        "pages_killed": 1,
    }
