"""An update that comes to a run whose worker was lost, during an inline call or while the run waited.

Temporal's core gives the update to the next worker together with what the lost one began, and to each worker after
that apart from it.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from datetime import timedelta
from functools import partial
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
    """The SDK has the code go on for the query, which is refused. The server decides whether a query or a workflow task
    goes first, so many runs wait for the next worker."""
    for number in range(5):
        if refused := await _refused_first(world, [f"a{number}-{each}" for each in range(16)]):
            break
    else:
        pytest.fail("no query came before the workflow task of its run")

    replayer = Replayer(workflows=[], plugins=[PerdurePlugin(told.app, world.config)])
    for entity_id in refused:
        await replayer.replay_workflow(await world.handle("told", entity_id).fetch_history())


async def _refused_first(world: World, ids: list[str]) -> list[str]:
    """Let a query, a message and an update of each run wait for the next worker, and let that end the entities. Returns
    those whose query came first there, and was refused."""
    handles = {each: world.handle("told", each) for each in ids}
    worker = await world.spawn("tests.apps.told:app")
    for each in ids:
        await world.client.start("told", each, Booking())
    for each, handle in handles.items():
        await world.until_delivered("told", each)
        waits = partial(_tasks_begun, handle, 1, EventType.EVENT_TYPE_WORKFLOW_TASK_COMPLETED)
        await world.until(waits, f"{each} waits")
    await worker.stop()
    querying = {each: asyncio.create_task(handle.query("status")) for each, handle in handles.items()}
    for handle in handles.values():
        await handle.describe()
        await handle.signal("go")
    asking = [asyncio.create_task(_client(world).cancel("told", each, by="ann", note="not wanted")) for each in ids]
    for handle in handles.values():
        await world.until(partial(_has_arrived, handle), "the update is at the server")
    worker = await world.spawn("tests.apps.told:app")
    for each, cancel in zip(ids, asking, strict=True):
        with suppress(AlreadyFinished):
            await in_time(cancel)
        await world.completed("told", each)
    await worker.stop()
    return [each for each in ids if await _is_refused(querying[each])]


async def _is_refused(querying: asyncio.Task[Any]) -> bool:
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
