"""A master whose history gets long goes on in new runs: nothing is called twice, no child is missed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from datetime import timedelta

import pytest

from perdure.servers.temporal import TemporalServer
from tests.applications.web_jobs.conftest import Jobs
from tests.applications.web_jobs.integration.test_families import counts, lists
from tests.conftest import PROMPT_TIMERS
from workers.web_jobs.app import app

CACHED = 5
"""Workflows in the worker's cache: fewer than there are."""
SUGGESTED_AFTER = 35
"""History events after which the server suggests a new run."""


@pytest.fixture(scope="module")
def temporal() -> Iterator[TemporalServer]:
    """A server that soon finds a history too long."""
    limits = {"limit.historyCount.suggestContinueAsNew": str(SUGGESTED_AFTER)}
    with TemporalServer(dynamic_config=PROMPT_TIMERS | limits) as server:
        yield server


async def test_a_master_leads_its_children_to_their_end_through_many_runs(jobs: Jobs) -> None:
    for name in ("master", "page"):
        # Not inline: no lost workflow task puts a call in doubt.
        await jobs.type(name, timeout=timedelta(seconds=6), children=["page"])
    ids = [str(number) for number in range(60)]
    jobs.pages.replies["/master"] = [lists(*ids[:20], next="/more", window=3)]
    jobs.pages.replies["/more"] = [lists(*ids[20:40], next="/rest")]
    jobs.pages.replies["/rest"] = [lists(*ids[40:])]
    async with jobs.world.worker(app, max_cached_workflows=CACHED):
        await jobs.insert("m", "master")
        assert await jobs.ended("m") == "complete"
    assert await counts(jobs, "m") == "done=60"
    lengths = await _lengths(jobs, "m")
    assert len(lengths) >= 3
    assert max(lengths) < 3 * SUGGESTED_AFTER
    assert Counter(each.path for each in jobs.pages.asked) == {"/master": 1, "/page": 60, "/more": 1, "/rest": 1}


async def _lengths(jobs: Jobs, master: str) -> list[int]:
    """How many events each run of a master has, the last one first."""
    lengths, run_id = [], (await jobs.world.handle("web-job", master).describe()).run_id
    while run_id:
        handle = jobs.world.temporal_client.get_workflow_handle(f"{jobs.world.scope}:web-job/{master}", run_id=run_id)
        events = (await handle.fetch_history()).events
        lengths.append(len(events))
        run_id = events[0].workflow_execution_started_event_attributes.continued_execution_run_id
    return lengths
