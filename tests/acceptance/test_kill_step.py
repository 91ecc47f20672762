"""A worker that is killed while it takes a step that could not be taken in the workflow task."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from temporalio.api.enums.v1 import TimeoutType

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


async def test_killed_while_it_takes_a_step_as_an_activity_another_worker_takes_it_once_its_heartbeats_end(
    world: World,
) -> None:
    first = await world.spawn("tests.apps.stepping:app")
    await world.db.execute("insert into told values ('fail')")
    await world.client.start("stepper", "a", "a")
    await world.until(lambda: world.db.fetchval("select times > 1 from taken"), "taken again, as an activity")
    await world.db.execute("update told set what = 'wait'")
    await world.until(lambda: sends_heartbeats(world), "it is being taken, and sends heartbeats")
    await first.kill()
    await world.db.execute("delete from told")
    await world.spawn("tests.apps.stepping:app")

    assert await world.ended("stepper", "a") == "done"
    history = await world.handle("stepper", "a").fetch_history()
    [started] = [
        event.activity_task_started_event_attributes
        for event in history.events
        if event.HasField("activity_task_started_event_attributes")
    ]
    ended_by = started.last_failure.timeout_failure_info.timeout_type
    assert TimeoutType.Name(ended_by) == "TIMEOUT_TYPE_HEARTBEAT"


async def sends_heartbeats(world: World) -> bool:
    """Whether a worker has taken the activity, and Temporal has a heartbeat of it."""
    described = (await world.handle("stepper", "a").describe()).raw_description
    return any(each.HasField("last_heartbeat_time") for each in described.pending_activities)
