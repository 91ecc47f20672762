"""The benchmark of the outbox on a few rows: each part does what it is there for, and gives its figures."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import asyncpg
import pytest
import pytest_asyncio

from bench.outbox import commits, deliveries, idling
from bench.outbox.load import run, server
from bench.outbox.rig import Rig, rig

pytestmark = pytest.mark.asyncio(loop_scope="module")
COUNTS = "select (select count(*) from comment) as rows, (select count(*) from perdure.outbox) as starts"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def here() -> AsyncIterator[Rig]:
    """Servers of its own."""
    async with rig() as made:
        yield made


async def test_an_app_commits_rows_alone_and_with_their_starts_and_is_timed() -> None:
    async with server(durable=False) as made:
        connection = await asyncpg.connect(made.dsn())
        await connection.execute(commits.NOTIFY)
        bare, started = commits.WAYS["a transaction"]
        for scripts, share in (([bare], 0), ([started, *commits.NOTIFYING.values()], 1)):
            await connection.execute("truncate comment, perdure.outbox")
            found = await asyncio.gather(*(run(made, each, clients=1, seconds=1) for each in scripts))
            for each in found:
                assert 0 <= each.p50 <= each.p99, each  # some clocks go by the tenth of a millisecond
                assert each.tps > 0, each
            row = await connection.fetchrow(COUNTS)
            assert row is not None
            assert row["rows"] > 0
            assert row["starts"] == share * row["rows"]
        await connection.close()


async def test_both_ways_to_start_bring_every_run_to_its_end(here: Rig) -> None:
    for way in (deliveries.by_client, deliveries.by_relay):
        assert await way(here, 10) > 0
        assert await here.app.fetchval("select count(*) from perdure.finished") == 10


async def test_the_first_task_comes_after_the_commit(here: Rig) -> None:
    taken = await deliveries.until_begun(here, 3, 0.05)
    assert len(taken) == 3
    assert min(taken) > 0


async def test_of_a_backlog_so_many_are_delivered_as_are_asked_for(here: Rig) -> None:
    await deliveries.fill(here, 400)
    assert min(each.per_s for each in await deliveries.with_backlog(here, 2, 1)) > 0
    assert 200 <= await here.app.fetchval("select count(*) from perdure.outbox") < 400


async def test_a_plain_client_commits_a_row_for_each_start(here: Rig) -> None:
    [found] = await deliveries.by_client_alone(here, 1, 10)
    assert found.per_s > 0
    assert await here.app.fetchval("select count(*) from comment") == 10


async def test_looking_often_costs_some_cpu(here: Rig) -> None:
    worker, postgres = await idling.idle(here, 0.02, 1)
    assert worker > 0
    assert postgres >= 0  # it is counted by the hundredth of a second
