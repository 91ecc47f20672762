"""An update that comes to a run whose worker was lost during an inline call.

Temporal's core gives the update to the next worker together with what the lost one began, and to each worker after
that apart from it.
"""

from __future__ import annotations

import asyncio

import asyncpg
import pytest
from temporalio.api.enums.v1 import EventType
from temporalio.worker import Replayer

from perdure import PerdurePlugin
from perdure._wire.names import MIRROR
from perdure.errors import AlreadyFinished
from tests.acceptance.bookings import commit_bookings
from tests.apps.bodies import app
from tests.deadline import in_time
from tests.world import World

KIND = "escalate-inline"


@pytest.mark.parametrize("mirrors", [False, True], ids=["cancel", "cancel and mirror"])
async def test_a_run_cancelled_after_its_worker_was_lost_in_an_inline_call_replays(world: World, mirrors: bool) -> None:
    worker = await world.spawn()
    holder = await asyncpg.connect(world.dsn)
    async with holder.transaction():
        await holder.execute("lock table perdure.effect in share mode")
        await commit_bookings(world, [KIND])
        await world.until(lambda: _heartbeat(world), "the worker has begun the call, and another workflow task")
        await worker.kill()
    await holder.close()
    if mirrors:
        await world.handle(KIND, KIND).signal(MIRROR, "ann")
    asking = asyncio.create_task(world.client.cancel(KIND, KIND, by="ann", note="not wanted"))
    await world.handle(KIND, KIND).describe()  # another call to the server: the update is there by now
    await world.spawn()
    with pytest.raises(AlreadyFinished):  # it acts behind the call, which the next worker makes at once
        await in_time(asking)
    await world.completed(KIND, KIND)

    history = await world.handle(KIND, KIND).fetch_history()
    await Replayer(workflows=[], plugins=[PerdurePlugin(app, world.config)]).replay_workflow(history)


async def _heartbeat(world: World) -> bool:
    """Whether a workflow task has ended without a command, and the next one has begun."""
    if (await world.client.status(KIND, KIND)).waits_for_delivery:
        return False
    events = [each.event_type for each in (await world.handle(KIND, KIND).fetch_history()).events]
    started = EventType.EVENT_TYPE_WORKFLOW_TASK_STARTED
    return events.count(started) == 2 and events[-1] == started
