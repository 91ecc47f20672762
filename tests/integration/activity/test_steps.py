"""A step on real servers is repeated until it succeeds, and not taken for a foreign or finished entity."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from temporalio.api.enums.v1 import PendingActivityState
from temporalio.client import WorkflowExecutionStatus
from temporalio.worker import Replayer

from perdure import PerdurePlugin
from perdure.servers.postgres import PostgresServer
from perdure.servers.temporal import TemporalServer
from tests.apps.stepping import TABLES, app
from tests.world import World


@pytest.fixture
async def world(
    postgres: PostgresServer, temporal: TemporalServer, database: str, tmp_path: Path
) -> AsyncIterator[World]:
    """With the tables of steps."""
    async with World(postgres, temporal, database, tmp_path).made(app) as made:
        await made.db.execute(TABLES)
        yield made


async def told(world: World, what: str) -> None:
    """Start a lifecycle whose step is told so, and wait until that is taken; it then goes on by `told_no_more`."""
    await world.db.execute("insert into told values ($1)", what)
    await world.client.start("stepper", "a", "a")


async def told_no_more(world: World) -> None:
    await world.db.execute("delete from told")


async def times(world: World) -> int:
    """How often the step was begun."""
    return await world.db.fetchval("select times from taken") or 0


async def taken(world: World, least: int) -> None:
    """Wait until it was begun so often."""

    async def enough() -> bool:
        return await times(world) >= least

    await world.until(enough, f"taken {least} times")


async def test_a_step_that_fails_is_taken_again_without_a_longer_history_and_the_run_replays(world: World) -> None:
    async with world.worker(app):
        await told(world, "fail")
        await taken(world, 2)
        await world.until(lambda: waits_to_be_taken_again(world), "it waits as an activity")
        before = (await world.handle("stepper", "a").describe()).history_length
        await taken(world, 3)
        assert (await world.handle("stepper", "a").describe()).history_length == before
        await told_no_more(world)
        assert await world.ended("stepper", "a") == "done"
        assert await world.db.fetchval("select count(*) from perdure.effect") == 0
        await world.until(lambda: closed(world), "closed")
        history = await world.handle("stepper", "a").fetch_history()
    await Replayer(workflows=[], plugins=[PerdurePlugin(app, world.config)]).replay_workflow(history)


async def closed(world: World) -> bool:
    return (await world.handle("stepper", "a").describe()).status == WorkflowExecutionStatus.COMPLETED


async def test_a_step_under_way_when_postgresql_goes_is_taken_when_it_is_back(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("perdure._activity.execution.PATIENCE", 0.3)
    async with world.worker(app):
        await told(world, "wait")
        await taken(world, 1)
        await asyncio.to_thread(world.postgres.stop)
        await world.until(lambda: waits_to_be_taken_again(world), "it was taken in vain")
        await world.servers_are_back()
        await told_no_more(world)
        assert await world.ended("stepper", "a") == "done"
        assert await times(world) == 2


async def test_no_step_is_taken_in_a_database_that_was_stopped(
    world: World, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("perdure._activity.execution.PATIENCE", 0.3)
    async with world.worker(app):
        await told(world, "fail")
        await taken(world, 1)
        await world.db.execute("update perdure.database set stopped = 'it is a copy'")
        await world.until(lambda: "nothing is sent from here" in caplog.messages, "the worker says so")
        before = await times(world)

        async def refused() -> bool:
            return "it is a copy" in await waits_to_be_taken_again(world)

        await world.until(refused, "refused")
        assert await times(world) == before
        await world.db.execute("update perdure.database set stopped = null")
        await told_no_more(world)
        assert await world.ended("stepper", "a") == "done"


async def waits_to_be_taken_again(world: World) -> str:
    """Why the last time was in vain; empty where it is not taken again."""
    described = await world.handle("stepper", "a").describe()
    return "".join(str(each.last_failure) for each in described.raw_description.pending_activities)


async def test_a_step_that_can_not_succeed_is_given_up_by_a_cancel(world: World) -> None:
    async with world.worker(app):
        await told(world, "fail")
        await taken(world, 2)
        await world.until(lambda: waits_to_be_taken_again(world), "it waits as an activity")
        await world.client.cancel("stepper", "a", by="ann")
        assert await world.ended("stepper", "a") == "cancelled"
        assert await world.db.fetchval("select count(*) from told") == 1, "it was told to fail until the end"


async def test_a_step_under_way_comes_to_its_end_before_a_cancel(world: World) -> None:
    async with world.worker(app):
        await told(world, "fail")
        await taken(world, 2)
        await world.until(lambda: waits_to_be_taken_again(world), "it waits as an activity")
        before = await times(world)
        await world.db.execute("update told set what = 'wait'")
        await taken(world, before + 1)
        await world.client.cancel("stepper", "a", by="ann")
        await world.until(lambda: last_heartbeat(world, cancelled=True), "the cancel is on its way")
        heard = await last_heartbeat(world)

        async def learns_of_it() -> bool:
            return await last_heartbeat(world) != heard

        await world.until(learns_of_it, "the worker sends a heartbeat, and learns of the cancel")
        await told_no_more(world)
        assert await world.ended("stepper", "a") == "done"


async def last_heartbeat(world: World, *, cancelled: bool = False) -> int:
    """The time of the last heartbeat of the step that is under way, in nanoseconds; 0 where there is none.

    Args:
        cancelled: of one whose cancellation is asked for.
    """
    described = await world.handle("stepper", "a").describe()
    wanted = PendingActivityState.PENDING_ACTIVITY_STATE_CANCEL_REQUESTED
    times = [
        each.last_heartbeat_time.ToNanoseconds()
        for each in described.raw_description.pending_activities
        if not cancelled or each.state == wanted
    ]
    return max(times, default=0)


async def test_no_step_is_taken_for_an_entity_that_is_over(world: World) -> None:
    async with world.worker(app):
        await told(world, "fail")
        await taken(world, 2)
        await world.db.execute("update perdure.ident set final = 'done', version = version + 1 where id = 'a'")
        await world.until(lambda: closed(world), "the run has ended")
    assert await world.db.fetchval("select count(*) from told") == 1, "it was told to fail until the end"
