"""An update that comes to a run whose worker was replaced while it only waited."""

from __future__ import annotations

from contextlib import suppress
from enum import StrEnum

import pytest
from pydantic import BaseModel
from temporalio import workflow
from temporalio.api.enums.v1 import EventType

from perdure import App, Lifecycle, state
from perdure.errors import AlreadyFinished
from tests.deadline import in_time
from tests.world import World

KIND = "waits"
bugs: list[str] = []


class Place(StrEnum):
    """Where it is."""

    OPEN = "open"
    OVER = state("over", cancelled=True)


class Given(BaseModel):
    """Nothing."""


@workflow.defn(name=KIND, sandboxed=False)
class Waits(Lifecycle[Given, Place]):
    """Waits until somebody ends it."""

    @workflow.run
    async def run(self, given: Given) -> None:
        """See the class."""
        if bugs:
            raise RuntimeError(bugs[0])
        await self.wait_for(lambda: False)


app = App([Waits])


@pytest.mark.world(app)
async def test_a_run_whose_first_workflow_task_failed_can_be_cancelled_after_a_deploy(world: World) -> None:
    """Its history is as long as one in which a worker was lost in an inline call, so the update may be refused once."""
    bugs.append("a bug")
    async with world.worker(app):
        await world.client.start(KIND, "a", Given())
        await world.until_delivered(KIND, "a")
        await world.until(lambda: _has(world, EventType.EVENT_TYPE_WORKFLOW_TASK_FAILED), "the workflow task fails")
        bugs.clear()
        await world.until(lambda: _has(world, EventType.EVENT_TYPE_WORKFLOW_TASK_COMPLETED), "the run waits")
    async with world.worker(app):
        with suppress(AlreadyFinished):
            await in_time(world.client.cancel(KIND, "a", by="ann", note="not wanted"))
        assert await world.ended(KIND, "a") == "over"


async def _has(world: World, event_type: EventType.ValueType) -> bool:
    history = await world.handle(KIND, "a").fetch_history()
    return any(each.event_type == event_type for each in history.events)
