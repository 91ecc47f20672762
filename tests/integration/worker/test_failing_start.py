"""A worker that fails at its start ends `run` with the error, whoever waits for it; one that meets a lock waits."""

from __future__ import annotations

import asyncio

import asyncpg
import pytest

from perdure._store import connecting
from perdure._store.connecting import open_pool
from perdure._worker.preparing import patiently
from perdure.errors import PerdureError
from perdure.testing.proxy import proxied
from tests.apps.straight import app
from tests.deadline import in_time
from tests.world import World

_WAITING = """
    select query_start from pg_stat_activity
    where datname = current_database() and pid <> pg_backend_pid() and wait_event_type = 'Lock'
"""


async def test_the_block_that_runs_it_ends_with_its_error(world: World) -> None:
    without_tables = world.dsn.rpartition("/")[0] + "/postgres"

    async def run() -> None:
        async with world.worker(app, database_url=without_tables):
            pytest.fail("it runs")

    with pytest.raises(PerdureError, match="migrate"):
        await in_time(run())


@pytest.mark.parametrize("table", ["migration", "database"])
async def test_one_that_meets_a_lock_at_its_start_begins_when_that_is_released(world: World, table: str) -> None:
    tries = set[asyncpg.Record]()

    async def begins() -> None:
        async with world.worker(app):
            pass

    async def tried_twice() -> bool:
        assert not starting.done(), "it gave up"
        tries.update(await world.db.fetch(_WAITING))
        return len(tries) > 1

    holder = await asyncpg.connect(world.dsn)
    async with holder.transaction():
        await holder.execute(f"lock table perdure.{table} in access exclusive mode")
        starting = asyncio.create_task(begins())
        await world.until(tried_twice, "a lock that was waited for twice")
    await in_time(starting)
    await holder.close()


async def test_a_check_whose_connection_is_lost_within_a_transaction_is_repeated(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connecting, "PATIENCE", 1.0)
    tries = 0
    async with proxied(world.postgres.port) as proxy:
        pool = await open_pool(world.dsn.replace(f":{world.postgres.port}/", f":{proxy.port}/"), 1)

        async def check() -> None:
            nonlocal tries
            async with pool.acquire() as connection, connection.transaction():
                tries += 1
                if tries == 1:
                    proxy.freeze()
                await connection.execute("select 1")

        await in_time(patiently(check))
        await pool.close()
    assert tries > 1
