"""A long effect goes on where its last heartbeat was: a thousand steps, killed at about six hundred."""

from __future__ import annotations

import asyncio
import json

from tests.apps.contracts import MARCH, March
from tests.world import World

THROTTLED = 0.8 * MARCH.heartbeat.total_seconds()
"""Seconds by which a heartbeat may be older than the progress: the SDK sends one for each 0.8 of the time-out."""
BEAT = MARCH.heartbeat.total_seconds() / 3


async def test_a_march_that_is_killed_at_step_600_goes_on_from_its_last_heartbeat(world: World) -> None:
    world.counterparty.takes = 0.006, 0.006
    first = await world.spawn()
    await world.client.start("march", "a", March(steps=1000))
    await world.counterparty.has_made(600)
    await first.kill()
    killed_at = asyncio.get_running_loop().time()
    walked = len(world.counterparty.steps)
    await world.spawn()
    assert await world.ended("march", "a") == "there"

    made = [each for each in world.counterparty.requests if each["op"] == "step"]
    receipt = json.loads(await world.db.fetchval("select receipt from perdure.effect where key = 'march/a/march'"))
    assert set(world.counterparty.steps) == set(range(1000))
    assert receipt == {"steps": 1000, "began_at": receipt["began_at"], "again": walked - receipt["began_at"]}
    assert len(made) == 1000 + receipt["again"]
    # What was walked between the last heartbeat and the kill, and no more, is walked twice.
    lost = sum(killed_at - (THROTTLED + BEAT + 0.5) < each["at"] < killed_at for each in made)
    assert 0 < receipt["again"] <= lost < walked
    assert receipt["began_at"] > 0
