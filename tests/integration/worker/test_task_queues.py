"""Workers of a task queue that an effect declares, beside those of the lifecycles."""

from __future__ import annotations

import pytest

from perdure._worker.service_process import ServiceProcess, Task
from perdure.contracts.scopes import queue_of
from perdure.errors import InvalidSetting
from tests.apps.contracts import Booking
from tests.apps.limited import ACCOUNT
from tests.apps.mailing import BY_MAIL, MAIL, app
from tests.world import World

pytestmark = pytest.mark.world(app)


async def queues(world: World, lifecycle: str) -> list[str]:
    """The task queue of each activity of the entity `a`."""
    history = await world.handle(lifecycle, "a").fetch_history()
    scheduled = [each.activity_task_scheduled_event_attributes for each in history.events]
    return [each.task_queue.name for each in scheduled if each.task_queue.name]


async def test_workers_of_an_effects_task_queue_make_its_attempts_and_run_no_lifecycle(world: World) -> None:
    async with world.worker(app, task_queue=MAIL):
        for name in ("mailing", "limited"):
            await world.client.start(name, "a", Booking())
        async with world.worker(app):
            for name in ("mailing", "limited"):
                assert await world.ended(name, "a") == "done"
                assert (await world.handle(name, "a").describe()).task_queue == world.config.queue
    assert await queues(world, "mailing") == [queue_of(MAIL, world.scope)]
    assert await queues(world, "limited") == [ACCOUNT.task_queue(world.config.queue)]


def test_services_start_no_lifecycle_on_an_effects_task_queue(world: World) -> None:
    config = world.config.model_copy(update={"task_queue": BY_MAIL.task_queue})
    with pytest.raises(InvalidSetting, match="PERDURE_TASK_QUEUE='mail'"):
        ServiceProcess(app, config, list(Task))
