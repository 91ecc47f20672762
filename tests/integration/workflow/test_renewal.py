"""A run that goes on in a new one loses no update, repeats no call and enters no state twice."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from temporalio.client import WorkflowUpdateFailedError, WorkflowUpdateStage
from temporalio.service import RPCError

from perdure.servers.postgres import PostgresServer
from perdure.servers.temporal import TemporalServer
from tests.apps.bodies import app as bookings
from tests.apps.bookings import Count, Counter
from tests.apps.contracts import Booking
from tests.apps.talking import Ring, Slow, app
from tests.world import World

SUGGESTED_AFTER = 20
"""History events after which the server suggests a new run."""


@pytest.fixture(scope="module")
def hasty() -> Iterator[TemporalServer]:
    """A server that soon finds a history too long."""
    limits = {"limit.historyCount.suggestContinueAsNew": str(SUGGESTED_AFTER)}
    with TemporalServer(dynamic_config=limits) as server:
        yield server


@pytest.fixture
async def renewing(
    postgres: PostgresServer, hasty: TemporalServer, database: str, tmp_path: Path
) -> AsyncIterator[World]:
    """A world on that server."""
    async with World(postgres, hasty, database, tmp_path).made(app) as made:
        yield made


async def test_no_acknowledged_update_is_lost_while_runs_go_on_in_new_ones(renewing: World) -> None:
    async with renewing.worker(bookings, max_cached_workflows=10):
        await renewing.client.start(Counter, "a", Count())
        counter = renewing.handle("counter", "a")
        await renewing.until(lambda: _delivered(renewing), "delivered")

        async def add(times: int) -> int:
            answered = 0
            while answered < times:
                await renewing.update("counter", "a", "add", 1)
                answered += 1
            return answered

        acknowledged = sum(await asyncio.gather(*(add(50) for _ in range(4))))
        assert await renewing.query("counter", "a", "counted") == acknowledged == 200
        await counter.signal("tell", "close")
        assert await renewing.ended("counter", "a") == "closed"
        assert await _runs(renewing, "counter") >= 5
    why = await renewing.db.fetchval("select why from perdure.transition where state = 'closed'")
    assert why == "total 200"


async def test_updates_that_meet_a_renewal_are_counted_once(world: World) -> None:
    async with world.worker(bookings):
        await world.client.start(Counter, "a", Count())
        counter = world.handle("counter", "a")
        await world.until(lambda: _delivered(world), "delivered")
        for number in range(2, 7):
            adding = [world.update("counter", "a", "add", 1) for _ in range(8)]
            await asyncio.gather(*adding[:4], counter.signal("tell", "renew"), *adding[4:])
            await _goes_on(world, number)  # a run that is told to close in the same moment need not be renewed
        assert await world.query("counter", "a", "counted") == 40
        await counter.signal("tell", "close")
        assert await world.ended("counter", "a") == "closed"
        assert await _runs(world, "counter") == 6
    assert await _versions_grow(world)


async def test_an_update_that_meets_the_end_is_counted_or_told_that_it_is_too_late(world: World) -> None:
    async with world.worker(bookings):
        await world.client.start(Counter, "a", Count())
        counter = world.handle("counter", "a")
        await world.until(lambda: _delivered(world), "delivered")
        counted = 0

        async def add_until_told() -> str:
            nonlocal counted
            while True:
                try:
                    await world.update("counter", "a", "add", 1)
                    counted += 1
                except WorkflowUpdateFailedError as refused:
                    return str(refused.cause)
                except RPCError as closed:
                    return closed.message

        adding = [asyncio.create_task(add_until_told()) for _ in range(4)]
        await world.until(lambda: counted >= 10, "updates under way")
        async with world.holding("perdure.finished"):
            await counter.signal("tell", "close")
            await world.held_up()
        told = await asyncio.gather(*adding)
    assert all(
        words in ("too late: already closed", "workflow execution already completed") or "closing workflow" in words
        for words in told
    ), told
    why = await world.db.fetchval("select why from perdure.transition where state = 'closed'")
    assert why == f"total {counted}"


async def test_an_update_during_a_final_write_waits_and_is_told_that_it_is_too_late(world: World) -> None:
    async with world.worker(bookings):
        await world.client.start(Counter, "a", Count())
        counter = world.handle("counter", "a")
        await world.until(lambda: _delivered(world), "delivered")
        async with world.holding("perdure.finished"):
            await counter.signal("tell", "close")
            await world.held_up()
            adding = await counter.start_update("add", 1, wait_for_stage=WorkflowUpdateStage.ACCEPTED)
        with pytest.raises(WorkflowUpdateFailedError) as refused:
            await adding.result()
        assert "too late: already closed" in str(refused.value.cause)
        assert await world.ended("counter", "a") == "closed"


async def test_a_run_renewed_while_it_waits_for_a_retry_repeats_nothing(renewing: World) -> None:
    renewing.counterparty.replies += [{"refused": "no such bell"}] * 4
    async with renewing.worker(app):
        await renewing.client.start(Ring, "a", Booking())
        for generation in range(4):
            await renewing.counterparty.saw("do", count=generation + 1)
            await renewing.until(lambda: _waits_for_retry(renewing), "it waits for somebody")
            await renewing.client.retry(Ring, "a", by="ann")
        assert await renewing.ended("ring", "a") == "done"
        assert await _runs(renewing, "ring") > 1
    keys = [each["key"].removeprefix("ring/a/do-ring") for each in renewing.counterparty.requests]
    assert keys == ["", "~1", "~2", "~3", "~4"]
    assert await renewing.states("ring", "a") == ["starting", *["doing", "failed"] * 4, "doing", "done"]
    assert await _versions_grow(renewing)


async def test_a_run_renewed_during_a_long_back_off_goes_on_waiting(renewing: World) -> None:
    renewing.counterparty.replies += [{"not_done": "busy"}] * 3
    async with renewing.worker(app):
        await renewing.client.start(Slow, "a", Booking())
        for tries in range(1, 4):
            await renewing.counterparty.saw("do", count=tries)
            await renewing.until(partial(_waits, renewing, tries), "the back-off")
            while await _runs(renewing, "slow") < tries + 1:
                await renewing.update("slow", "a", "say", "on")
                await renewing.asked("slow")
            await renewing.until(partial(_waits, renewing, tries), "the back-off, in the new run")
            assert renewing.counterparty.seen("do") == tries
            await renewing.client.retry(Slow, "a", by="ann")
        assert await renewing.ended("slow", "a") == "done"
    assert renewing.counterparty.accepted == {"slow/a/do-slow": 1}
    assert await renewing.states("slow", "a") == ["starting", "doing", "done"]
    assert (await renewing.client.status(Slow, "a")).effects[0].attempts == 4
    assert await _versions_grow(renewing)


async def _delivered(world: World) -> bool:
    return not (await world.client.status("counter", "a")).waits_for_delivery


async def _goes_on(world: World, runs: int) -> None:
    """Wait until so many runs were begun."""

    async def begun() -> bool:
        return await _runs(world, "counter") >= runs

    await world.until(begun, f"{runs} runs")


async def _runs(world: World, kind: str) -> int:
    """How many runs there were so far."""
    runs, run_id = 0, (await world.handle(kind, "a").describe()).run_id
    while run_id:
        runs += 1
        handle = world.temporal_client.get_workflow_handle(f"{world.scope}:{kind}/a", run_id=run_id)
        first = (await anext(handle.fetch_history_events())).workflow_execution_started_event_attributes
        run_id = first.continued_execution_run_id
    return runs


async def _waits(world: World, attempts: int) -> bool:
    effects = (await world.asked("slow")).effects
    return [(each.attempts, each.next_at is not None) for each in effects] == [(attempts, True)]


async def _waits_for_retry(world: World) -> bool:
    return (await world.asked("ring")).waits_for_retry


async def _versions_grow(world: World) -> bool:
    rows: list[Any] = await world.db.fetch("select version from perdure.transition order by at")
    versions = [row["version"] for row in rows]
    return versions == sorted(set(versions))
