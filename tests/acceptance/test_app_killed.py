"""The app dies, or Temporal is away, while it commits: never a row without its lifecycle, or one without its row."""

from __future__ import annotations

import asyncio
import sys

import asyncpg

from tests.acceptance.bookings import every_record_says_done, key
from tests.world import World

TABLES = ("booking", "perdure.ident", "perdure.entity", "perdure.transition", "perdure.outbox", "perdure.message")


async def _killed(world: World, where: str) -> None:
    """Let the app commit a booking, and kill it where it stands still."""
    app = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tests.apps.shop", world.dsn, "a", where), stdout=asyncio.subprocess.PIPE
    )
    assert app.stdout is not None
    assert (await app.stdout.readline()).decode().strip() == where
    app.kill()
    await app.wait()

    async def gone() -> bool:
        query = (
            "select count(*) = 1 from pg_stat_activity where datname = current_database() and query like '%booking%'"
        )
        return bool(await world.db.fetchval(query))

    await world.until(gone, "its connection is gone, with its transaction")


async def test_an_app_killed_before_its_commit_leaves_nothing(world: World) -> None:
    await _killed(world, "started")
    for table in TABLES:
        assert await world.db.fetchval(f"select count(*) from {table}") == 0, table


async def test_an_app_killed_right_after_its_commit_has_started_its_lifecycle(world: World) -> None:
    await _killed(world, "committed")
    assert await world.db.fetchval("select array_agg(kind order by seq) from perdure.outbox") == ["start", "message"]
    await world.spawn()
    assert await world.ended("lookup", "a") == "done"
    assert world.counterparty.accepted == {key("lookup", "a"): 1}


async def test_while_temporal_is_away_the_app_commits_as_ever_and_all_is_done_later(mortal: World) -> None:
    """A row every few milliseconds, before, while and after Temporal is away: none is lost.

    None waits for Temporal, which is started only once sixty more are committed.
    """
    await mortal.spawn()
    stop, count = asyncio.Event(), 0
    app = await asyncpg.connect(mortal.dsn)

    async def commit() -> None:
        nonlocal count
        while not stop.is_set():
            async with app.transaction():
                await app.execute("insert into booking (id) values ($1)", str(count))
                await mortal.client.start("lookup-inline", count, {}, connection=app)
            count += 1
            await asyncio.sleep(0.02)

    async def committed(more: int) -> None:
        wanted = count + more
        await mortal.until(lambda: count >= wanted, f"{wanted} committed")

    committing = asyncio.create_task(commit())
    await committed(20)
    await asyncio.to_thread(mortal.temporal.kill)
    await committed(60)
    waiting = await mortal.db.fetchval("select count(*) from perdure.outbox")
    await asyncio.to_thread(mortal.temporal.start)
    await committed(20)
    stop.set()
    await committing
    await app.close()
    for number in range(count):
        assert await mortal.ended("lookup-inline", number) == "done"

    await every_record_says_done(mortal)
    assert set(mortal.counterparty.accepted.values()) == {1}
    assert len(mortal.counterparty.accepted) == count
    assert waiting >= 60
