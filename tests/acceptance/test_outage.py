"""Servers are away for a while: whatever was committed happens once when they are back."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from tests.acceptance.bookings import LOOKUPS, attempts, commit_bookings, every_record_says_done, key, sends
from tests.acceptance.hold import hold
from tests.apps.contracts import MARCH, March
from tests.world import WorkerProcess, World

OUTAGES: dict[str, Callable[[World], None]] = {
    "PostgreSQL": lambda world: world.postgres.stop("immediate"),
    "Temporal": lambda world: world.temporal.kill(),
}
IDS = [str(number) for number in range(15)]


@pytest.mark.parametrize("away", [["PostgreSQL"], ["Temporal"], ["PostgreSQL", "Temporal"]], ids=" and ".join)
async def test_thirty_bookings_are_done_once_though_servers_go_away_in_the_middle(
    mortal: World, away: list[str]
) -> None:
    """Calls are under way when they go, and end while they are away; others wait to begin."""
    mortal.counterparty.before_replying.shut()
    worker = await mortal.spawn(PERDURE_MAX_CONCURRENT_EFFECTS="5")
    for kind in LOOKUPS:
        await commit_bookings(mortal, [kind], [f"{kind}-{number}" for number in IDS])
    await mortal.counterparty.has_accepted(10)
    for server in away:
        await asyncio.to_thread(OUTAGES[server], mortal)
    mortal.counterparty.before_replying.open()
    await noticed(mortal, away, worker)
    await mortal.servers_are_back()
    for kind in LOOKUPS:
        for number in IDS:
            await mortal.ended(kind, f"{kind}-{number}")

    await every_record_says_done(mortal)
    assert set(mortal.counterparty.accepted.values()) == {1}
    assert {key(kind, f"{kind}-{number}") for kind in LOOKUPS for number in IDS} <= set(mortal.counterparty.accepted)


async def test_a_start_committed_while_temporal_was_away_is_delivered_later(mortal: World) -> None:
    await mortal.spawn()
    await asyncio.to_thread(mortal.temporal.kill)
    await commit_bookings(mortal, LOOKUPS)
    for kind in LOOKUPS:
        assert (await mortal.client.status(kind, kind)).waits_for_delivery
    await mortal.servers_are_back()
    for kind in LOOKUPS:
        await mortal.ended(kind, kind)

    await every_record_says_done(mortal)
    assert sends(mortal.counterparty) == {key(kind): 1 for kind in LOOKUPS}


async def test_a_start_committed_while_no_worker_ran_is_performed_once_one_runs(world: World) -> None:
    """Its relay was killed before it had seen the commit."""
    relay = await world.spawn()
    await relay.kill()
    await commit_bookings(world, LOOKUPS)
    await world.spawn()
    for kind in LOOKUPS:
        await world.ended(kind, kind)

    await every_record_says_done(world)
    assert sends(world.counterparty) == {key(kind): 1 for kind in LOOKUPS}


async def test_a_slow_commit_is_not_a_lost_worker(world: World) -> None:
    """The worker beats while its attempt is put on record: PostgreSQL may take longer than the heartbeat time-out."""
    await world.spawn()
    async with hold(world, "insert on perdure.effect") as commit:
        await world.client.start("march", "a", March(steps=10))
        await commit.reached()
        longer = MARCH.heartbeat_timeout.total_seconds()
        await world.until(lambda: beats_for(world, longer), "heartbeats for longer than their time-out")
        await commit.release()
    await world.ended("march", "a")

    assert await attempts(world) == {"march": 1}
    assert world.counterparty.steps == dict.fromkeys(range(10), 1)


async def beats_for(world: World, seconds: float) -> bool:
    """Whether the activity under way has sent heartbeats for so long."""
    described = await world.handle("march", "a").describe()
    pending = described.raw_description.pending_activities
    if not pending:
        return False
    last, begun = pending[0].last_heartbeat_time, pending[0].last_started_time
    return last.ToMicroseconds() - begun.ToMicroseconds() > seconds * 1e6


async def noticed(world: World, away: list[str], worker: WorkerProcess) -> None:
    """Wait until the worker has met with their absence."""
    if "PostgreSQL" in away:
        await world.until(lambda: "relay: failed" in worker.text(), "the relay failed")
        return
    await commit_bookings(world, ["dedupe"])
    undelivered = "select count(*) from perdure.outbox where error is not null"
    await world.until(lambda: world.db.fetchval(undelivered), "a delivery that failed")
