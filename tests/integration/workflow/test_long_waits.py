"""Days and months of waiting, on the time-skipping server: timers end when they should, and not before."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

from temporalio.contrib.pydantic import pydantic_data_converter
from temporalio.worker import Worker

from infra.time_skipping import time_skipping_environment
from perdure import PerdurePlugin
from tests.apps.contracts import Booking
from tests.apps.talking import Rest, Slow, app
from tests.running import running
from tests.world import World

DAY = 86_400.0
BUSY = {"not_done": "busy"}


async def test_a_wait_of_thirty_days_lasts_thirty_days(world: World) -> None:
    async with _skipping(world) as run:
        await run(Rest, Booking(seconds=30 * DAY))
    assert await world.db.fetchval("select why from perdure.finished") == "30 days"


async def test_a_back_off_goes_on_for_days_with_the_same_key(world: World) -> None:
    world.counterparty.replies += [BUSY] * 40
    async with _skipping(world) as run:
        lasted = await run(Slow, Booking())
    assert world.counterparty.accepted == {"slow/a/do-slow": 1}
    assert world.counterparty.seen("do") == 41
    assert 40 * 0.8 <= lasted / 3600 <= 40 * 1.2 + 1


async def test_an_effect_that_expires_after_a_day_is_not_tried_after_that(world: World) -> None:
    world.counterparty.replies += [BUSY] * 60
    async with _skipping(world) as run:
        lasted = await run(Slow, Booking(seconds=DAY))
    assert await world.states("slow", "a") == ["pending", "doing", "expired"]
    assert 20 <= world.counterparty.seen("do") <= 31
    assert 24 <= lasted / 3600 < 24.1


@asynccontextmanager
async def _skipping(world: World) -> AsyncIterator[Any]:
    """Gives a function that runs a lifecycle to its end and returns the seconds it lasted by the server's clock."""
    async with time_skipping_environment(data_converter=pydantic_data_converter) as environment:

        async def run(kind: Any, booking: Booking) -> float:
            name = "rest" if kind is Rest else "slow"
            handle = await environment.client.start_workflow(
                name, booking, id=f"{world.scope}:{name}/a", task_queue=world.config.queue
            )
            await handle.result()
            ended = await handle.describe()
            assert ended.close_time is not None
            lasted: timedelta = ended.close_time - ended.start_time
            return lasted.total_seconds()

        plugin = PerdurePlugin(app, world.config.model_copy(update={"relay": False}))
        async with running(Worker(environment.client, task_queue=world.config.queue, plugins=[plugin])):
            yield run
