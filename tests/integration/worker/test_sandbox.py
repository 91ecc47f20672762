"""A worker executes the first runs of each lifecycle in the sandbox, and all of them once one has failed there."""

from __future__ import annotations

import asyncio

import pytest

from perdure._worker.sandbox import FIRST
from tests.apps.watched import app
from tests.world import World

pytestmark = pytest.mark.world(app)


async def start(world: World, lifecycle: str, entity_id: str) -> None:
    async with world.db.transaction():
        await world.client.start(lifecycle, entity_id, "time", connection=world.db)


@pytest.mark.parametrize(("setting", "inside"), [("sampled", FIRST), ("always", FIRST + 6), ("never", 0)])
async def test_as_many_runs_are_watched_as_the_setting_says(world: World, setting: str, inside: int) -> None:
    async with world.worker(app, workflow_sandbox=setting):
        ends = []
        for number in range(FIRST + 6):
            await start(world, "where", str(number))
            ends.append(await world.ended("where", str(number)))
    assert ends[: min(inside, FIRST)] == ["inside"] * min(inside, FIRST)
    if setting == "sampled":
        assert "outside" in ends[FIRST:]  # each is watched by a chance of 1 %
    else:
        assert ends.count("inside") == inside


async def test_a_lifecycle_that_failed_wants_a_person_and_each_run_of_it_is_watched(
    world: World,
) -> None:
    async with world.worker(app):
        numbers = [str(number) for number in range(FIRST + 5)]
        for number in numbers:
            await start(world, "hidden", number)

        async def reported() -> bool:
            found = await world.db.fetch("select id from perdure.entity where attention like 'its code fails: %'")
            return len(found) == len(numbers)

        await world.until(reported, "each of them reported")
        assert not await world.db.fetch("select from perdure.finished")
        await asyncio.gather(*(world.handle("hidden", number).terminate() for number in numbers))
