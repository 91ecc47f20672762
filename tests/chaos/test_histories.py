"""The histories that a chaos run keeps of an entity with a finding are whole: they can be replayed afterwards."""

from __future__ import annotations

from pathlib import Path

import asyncpg
from temporalio.client import WorkflowHistory
from temporalio.worker import Replayer

from perdure import PerdurePlugin
from perdure.contracts.keys import Entity
from tests.apps.bodies import app
from tests.apps.bookings import Count, Counter
from tests.chaos.run import details
from tests.world import World


async def test_each_run_of_an_entity_is_a_file_that_replays(world: World, tmp_path: Path) -> None:
    async with world.worker(app):
        await world.client.start(Counter, "a", Count())
        counter = world.handle("counter", "a")
        await world.until(lambda: _started(world), "started")
        await counter.execute_update("add", 1)
        await counter.signal("tell", "renew")
        await world.until(lambda: _runs(world, 2), "a new run")
        await counter.execute_update("add", 1)
        await counter.signal("tell", "close")
        await world.completed("counter", "a")
        last = await counter.fetch_history()

    connection = await asyncpg.connect(world.dsn)
    found = await details(connection, world, "counter/a", tmp_path)
    await connection.close()

    files = [Path(file) for file in found["histories"]]
    assert files == [tmp_path / "histories" / f"counter-a-run-{number}.json" for number in (1, 2)]
    workflow_id = Entity("counter", "a").workflow_id(world.scope)
    histories = [WorkflowHistory.from_json(workflow_id, file.read_text()) for file in files]
    assert list(histories[-1].events) == list(last.events)
    replayer = Replayer(workflows=[], plugins=[PerdurePlugin(app, world.config)])
    for history in histories:
        await replayer.replay_workflow(history)


async def _started(world: World) -> bool:
    return bool(await _count(world))


async def _runs(world: World, number: int) -> bool:
    return await _count(world) == number


async def _count(world: World) -> int:
    query = f"WorkflowId = '{Entity('counter', 'a').workflow_id(world.scope)}'"
    return (await world.temporal_client.count_workflows(query)).count
