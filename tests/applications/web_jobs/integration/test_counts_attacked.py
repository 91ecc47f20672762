"""The counts of a family of web jobs travel in a setting of the session, which every role can write.

A role that may insert jobs can't have them counted for a family: only a write to a child's state counts, and such a
role may write neither a state nor a parent.
"""

from __future__ import annotations

import asyncpg
import pytest

from tests.applications.web_jobs.conftest import Jobs
from tests.security.conftest import Roles, perdure, roles
from tests.world import World

__all__ = ["roles"]
FORGED = '["m","open",-1],["m","done",1]'
COUNTS = "select listed, waiting, open, done from web_job.family where master = 'm'"


@pytest.fixture
def world(jobs: Jobs) -> World:
    """The one of the jobs, for the roles."""
    return jobs.world


async def test_a_role_that_inserts_jobs_counts_for_no_family_what_it_has_set(
    jobs: Jobs, roles: Roles, monkeypatch: pytest.MonkeyPatch
) -> None:
    await jobs.type()
    await jobs.insert("m")
    await jobs.db.execute("""select web_job.list_children('m', 0, '[{"id": "1", "type": "page"}]', null)""")
    before = await jobs.db.fetchrow(COUNTS)
    name = await roles.make("app")
    await perdure(jobs.world, "grant", name, "--as", "app")
    monkeypatch.setenv("PERDURE_APP", "workers.web_jobs.app:app")
    await perdure(jobs.world, "job-type", "set-up", "--grant", name)
    app = await roles.connect(name)
    await app.execute("select set_config('web_job.moves', $1, false)", FORGED)
    await app.execute("insert into web_job.job (id, type) values ('mine', 'page')")
    await app.execute("select web_job.called_back('a token', true)")
    for forbidden in (
        "select web_job.count_moves()",
        "update web_job.job set state = 'complete'",
        "insert into web_job.job (id, type, parent) values ('m/2', 'page', 'm')",
        "insert into web_job.job (id, type, state) values ('m/2', 'page', 'complete')",
        "select web_job.advance('m')",
    ):
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            await app.execute(forbidden)
    assert await jobs.db.fetchrow(COUNTS) == before
