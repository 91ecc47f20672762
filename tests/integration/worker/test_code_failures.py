"""Failures of earlier code are cleared while the worker runs, however many there are and whoever holds one."""

from __future__ import annotations

import asyncio

import asyncpg

from perdure._worker.code_failures import CodeFailures
from perdure.contracts.keys import Entity
from tests.deadline import in_time
from tests.world import World

FAILING = """
    insert into perdure.entity (lifecycle, id, generation, state, attention)
    select 'booking', i, 0, 'open', $2 from generate_series(0, $1 - 1) i
"""
EARLIER = "its code fails: RuntimeError: a bug"
LEFT = f"select count(*) from perdure.entity where attention = '{EARLIER}'"
WAITS = "select exists (select from pg_stat_activity where query like '%its code fails%' and wait_event_type = 'Lock')"


async def test_many_are_cleared_beside_one_that_is_held_and_none_that_was_reported_since(world: World) -> None:
    await world.db.execute(FAILING, 2501, EARLIER)
    pool = world.client._pool
    starting, other = CodeFailures(pool), CodeFailures(pool)
    holder = await asyncpg.connect(world.dsn)
    try:
        async with holder.transaction():
            await holder.execute("select from perdure.entity where id = '7' for update")
            await in_time(asyncio.gather(starting.start(), other.start()))
            await world.until(lambda: world.db.fetchval(f"{LEFT} having count(*) = 1"), "one is left")
            other.report(Entity("booking", "8"), "RuntimeError: a new bug")
            await world.until(lambda: world.db.fetchval("select attention from perdure.entity where id = '8'"), "new")
        starting.nudge()
        await world.until(lambda: world.db.fetchval(f"select ({LEFT}) = 0"), "none is left")
    finally:
        await holder.close()
        await asyncio.gather(starting.stop(), other.stop())
    assert await world.db.fetchval("select attention from perdure.entity where attention is not null") == (
        "its code fails: RuntimeError: a new bug"
    )


async def test_no_report_is_lost_because_as_many_come_as_it_keeps_while_one_is_written(world: World) -> None:
    await world.db.execute(FAILING, 1001, None)
    holder = await asyncpg.connect(world.dsn)
    async with asyncpg.create_pool(world.dsn, min_size=1) as pool:  # without the bounds: it waits for the lock
        failures = CodeFailures(pool)
        async with holder.transaction():
            await holder.execute("select from perdure.entity where id = '0' for update")
            failures.report(Entity("booking", "0"), "a bug")
            writing = asyncio.create_task(failures.once())
            await world.until(lambda: world.db.fetchval(WAITS), "the first is being written")
            for number in range(1, 1001):
                failures.report(Entity("booking", str(number)), "a bug")
        await in_time(writing)
    await holder.close()
    assert await world.db.fetch("select id from perdure.entity where attention is null") == []
