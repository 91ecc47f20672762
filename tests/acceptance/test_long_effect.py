"""A long effect goes on where its last heartbeat was: a thousand steps, killed at about six hundred."""

from __future__ import annotations

import json

from tests.apps.contracts import March
from tests.world import World


async def test_a_march_that_is_killed_at_step_600_goes_on_from_its_last_heartbeat(world: World) -> None:
    world.counterparty.takes = 0.006, 0.006
    first = await world.spawn()
    await world.client.start("march", "a", March(steps=1000))
    await world.counterparty.has_made(600)
    await first.kill()
    walked = len(world.counterparty.steps)
    await world.spawn()
    assert await world.ended("march", "a") == "there"

    made = [each for each in world.counterparty.requests if each["op"] == "step"]
    receipt = json.loads(await world.db.fetchval("select receipt from perdure.effect where key = 'march/a/march'"))
    assert set(world.counterparty.steps) == set(range(1000))
    assert receipt == {"steps": 1000, "began_at": receipt["began_at"], "again": walked - receipt["began_at"]}
    assert len(made) == 1000 + receipt["again"]
    # What was walked after the last heartbeat that Temporal has, and no more, is walked twice.
    assert receipt["began_at"] == await last_heartbeat(world)
    assert 0 < receipt["began_at"] < walked


async def last_heartbeat(world: World) -> int:
    """The progress in the last heartbeat of the attempt that was lost."""
    history = await world.handle("march", "a").fetch_history()
    [lost] = [
        event.activity_task_timed_out_event_attributes
        for event in history.events
        if event.HasField("activity_task_timed_out_event_attributes")
    ]
    beaten = lost.failure.timeout_failure_info.last_heartbeat_details.payloads
    [step] = await world.temporal_client.data_converter.decode(beaten, [int])
    return int(step)
