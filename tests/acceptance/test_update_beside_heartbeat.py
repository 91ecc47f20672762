"""An update that comes to a run whose worker was lost, during an inline call or while the run waited.

Temporal's core gives the update to the next worker together with what the lost one began, and to each worker after
that apart from it.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from datetime import timedelta
from typing import Any

import pytest
from temporalio.api.common.v1 import WorkflowExecution
from temporalio.api.enums.v1 import EventType
from temporalio.api.update.v1 import UpdateRef, WaitPolicy
from temporalio.api.workflowservice.v1 import PollWorkflowExecutionUpdateRequest
from temporalio.client import WorkflowHandle, WorkflowQueryFailedError
from temporalio.service import RPCError, RPCStatusCode
from temporalio.worker import Replayer

from perdure import Client, PerdurePlugin
from perdure._services.guarded import TASK_WAITS
from perdure._wire.names import MIRROR
from perdure.errors import AlreadyFinished
from tests.acceptance.bookings import commit_bookings
from tests.apps import told
from tests.apps.bodies import app
from tests.apps.contracts import Booking
from tests.deadline import DEADLINE, in_time
from tests.world import World

KIND = "escalate-inline"
UPDATE = "the-cancel"


@pytest.fixture(autouse=True)
def _known_update(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("perdure.client.asking.uuid4", lambda: UPDATE)


@pytest.mark.parametrize("mirrors", [False, True], ids=["cancel", "cancel and mirror"])
async def test_a_run_cancelled_after_its_worker_was_lost_in_an_inline_call_replays(world: World, mirrors: bool) -> None:
    worker = await world.spawn()
    async with world.holding("perdure.effect"):  # no call begins, so the update is always before its end
        await commit_bookings(world, [KIND])
        await world.until(lambda: _heartbeat(world), "the worker has begun the call, and another workflow task")
        await worker.kill()
        if mirrors:
            await world.handle(KIND, KIND).signal(MIRROR, "ann")
        assert not await _has_arrived(world.handle(KIND, KIND))
        asking = asyncio.create_task(_client(world).cancel(KIND, KIND, by="ann", note="not wanted"))
        await world.until(lambda: _has_arrived(world.handle(KIND, KIND)), "the update is at the server")
        await world.spawn()
        await in_time(asking)
    await world.completed(KIND, KIND)

    history = await world.handle(KIND, KIND).fetch_history()
    await Replayer(workflows=[], plugins=[PerdurePlugin(app, world.config)]).replay_workflow(history)


@pytest.mark.world(told.app)
@pytest.mark.parametrize("more", ["go", MIRROR])
async def test_so_does_one_whose_inline_call_began_with_a_message(world: World, more: str) -> None:
    """No task before it had a command."""
    worker = await world.spawn("tests.apps.told:app")
    await world.client.start("told", "a", Booking())
    await world.until_delivered("told", "a")
    handle = world.handle("told", "a")
    await world.until(lambda: _tasks_begun(handle, 1, EventType.EVENT_TYPE_WORKFLOW_TASK_COMPLETED), "it waits")
    async with world.holding("perdure.effect"):  # no call begins, so the update is always before its end
        await handle.signal("go")
        await world.until(lambda: _tasks_begun(handle, 3), "the worker has begun the call, and another workflow task")
        await worker.kill()
        await handle.signal(more, *(["ann"] if more == MIRROR else []))
        asking = asyncio.create_task(_client(world).cancel("told", "a", by="ann", note="not wanted"))
        await world.until(lambda: _has_arrived(handle), "the update is at the server")
        await world.spawn("tests.apps.told:app")
        await in_time(asking)
    await world.completed("told", "a")

    history = await handle.fetch_history()
    await Replayer(workflows=[], plugins=[PerdurePlugin(told.app, world.config)]).replay_workflow(history)


@pytest.mark.world(told.app)
async def test_so_does_one_that_was_queried_while_the_update_waited(world: World) -> None:
    """The SDK has the code go on for the query, which is refused."""
    for number in range(10):
        if await _query_is_refused(world, f"a{number}"):
            break
    else:
        pytest.fail("the worker was never given the query before the workflow task")

    history = await world.handle("told", f"a{number}").fetch_history()
    await Replayer(workflows=[], plugins=[PerdurePlugin(told.app, world.config)]).replay_workflow(history)


async def _query_is_refused(world: World, entity_id: str) -> bool:
    """Let a query, a message and an update wait for the next worker, and let that end the entity. Returns whether the
    query came first there, and was refused."""
    worker = await world.spawn("tests.apps.told:app")
    await world.client.start("told", entity_id, Booking())
    await world.until_delivered("told", entity_id)
    handle = world.handle("told", entity_id)
    await world.until(lambda: _tasks_begun(handle, 1, EventType.EVENT_TYPE_WORKFLOW_TASK_COMPLETED), "it waits")
    await worker.stop()
    querying = asyncio.create_task(handle.query("status"))
    await handle.describe()
    await handle.signal("go")
    asking = asyncio.create_task(_client(world).cancel("told", entity_id, by="ann", note="not wanted"))
    await world.until(lambda: _has_arrived(handle), "the update is at the server")
    worker = await world.spawn("tests.apps.told:app")
    with suppress(AlreadyFinished):
        await in_time(asking)
    await world.completed("told", entity_id)
    await worker.stop()
    try:
        await in_time(querying)
    except WorkflowQueryFailedError as failed:
        if failed.message != TASK_WAITS:
            raise
        return True
    return False


def _client(world: World) -> Client:
    """One that waits for as long as a busy machine takes until a worker answers."""
    patience = timedelta(seconds=DEADLINE)
    return Client(world.client._pool, world.temporal_client, config=world.config, patience=patience)


async def _heartbeat(world: World) -> bool:
    """Whether a workflow task has ended without a command, and the next one has begun."""
    if (await world.client.status(KIND, KIND)).waits_for_delivery:
        return False
    return await _tasks_begun(world.handle(KIND, KIND), 2)


async def _tasks_begun(
    handle: WorkflowHandle[Any, Any],
    count: int,
    last: EventType.ValueType = EventType.EVENT_TYPE_WORKFLOW_TASK_STARTED,
) -> bool:
    """Whether so many workflow tasks have begun, and the history ends with such an event."""
    events = [each.event_type for each in (await handle.fetch_history()).events]
    return events.count(EventType.EVENT_TYPE_WORKFLOW_TASK_STARTED) == count and events[-1] == last


async def _has_arrived(handle: WorkflowHandle[Any, Any]) -> bool:
    """Whether Temporal has the update, which no worker has accepted yet."""
    client = handle._client
    ref = UpdateRef(workflow_execution=WorkflowExecution(workflow_id=handle.id), update_id=UPDATE)
    request = PollWorkflowExecutionUpdateRequest(namespace=client.namespace, update_ref=ref, wait_policy=WaitPolicy())
    try:
        await client.workflow_service.poll_workflow_execution_update(request)
    except RPCError as error:
        if error.status is not RPCStatusCode.NOT_FOUND:
            raise
        return False
    return True
