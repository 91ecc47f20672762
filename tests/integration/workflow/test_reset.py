"""After a reset, or a termination and a start by hand, no effect is repeated and the mirror moves only forward."""

from __future__ import annotations

import uuid
from typing import Any

import pytest
from temporalio.api.common.v1 import WorkflowExecution
from temporalio.api.workflowservice.v1 import ResetWorkflowExecutionRequest

from perdure.contracts import EffectStatus
from tests.apps.contracts import Booking
from tests.apps.talking import Look, LookInline, Ring, Slow, app
from tests.world import World

KINDS = [pytest.param(Look, "look", id="regular"), pytest.param(LookInline, "look-inline", id="inline")]
BUSY = {"not_done": "busy"}


@pytest.mark.parametrize(("kind", "name"), KINDS)
async def test_a_finished_run_that_is_reset_makes_no_call_and_ends_as_it_had(
    world: World, kind: Any, name: str
) -> None:
    async with world.worker(app):
        await world.client.start(kind, "a", Booking())
        await world.ended(name, "a")
        await world.handle(name, "a").result()
        delivered = "select not exists (select from perdure.outbox)"
        await world.until(lambda: world.db.fetchval(delivered), "the relay has put on record that it delivered")
        before = await world.client.status(kind, "a"), await _transitions(world)
        await _reset(world, name)
        await world.handle(name, "a").result()
    assert (await world.client.status(kind, "a"), await _transitions(world)) == before
    assert world.counterparty.seen("do") == 1


async def test_an_open_run_reset_to_before_its_effect_ends_once_and_truly(world: World) -> None:
    world.counterparty.replies += [BUSY]
    async with world.worker(app):
        await world.client.start(Slow, "a", Booking())
        await world.counterparty.saw("do")
        await world.until(lambda: _waits(world), "the back-off")
        await _reset(world, "slow")
        await world.counterparty.saw("do", count=2)
        assert await world.ended("slow", "a") == "done"
        await world.handle("slow", "a").result()
    assert world.counterparty.accepted == {"slow/a/do-slow": 1}
    assert (await world.states("slow", "a"))[-1] == "done"
    assert await _versions_grow(world)


@pytest.mark.parametrize("cached", [1000, 0])
async def test_a_parked_run_reset_to_before_its_effect_parks_again_without_a_call(world: World, cached: int) -> None:
    world.counterparty.replies += [{"accept": True, "close": True}]
    async with world.worker(app, max_cached_workflows=cached):
        await world.client.start(Ring, "a", Booking())
        await world.until(lambda: _parked(world), "parked")
        await _reset(world, "ring")
        await world.until(lambda: _parked(world), "parked again")
        assert (await world.client.status(Ring, "a")).state == "doing"
        await world.client.resolve(Ring, "a", EffectStatus.DONE, by="ann", note="it rang", receipt={"number": 1})
        assert await world.ended("ring", "a") == "done"
    assert world.counterparty.seen("do") == 1
    assert await _versions_grow(world)


async def test_a_run_that_waits_for_a_retry_and_is_reset_comes_back_to_that(world: World) -> None:
    world.counterparty.replies += [{"refused": "no such bell"}]
    async with world.worker(app):
        await world.client.start(Ring, "a", Booking())
        await world.until(lambda: _waits_for_retry(world), "it waits for somebody")
        await _reset(world, "ring")
        await world.until(lambda: _waits_for_retry(world), "it waits again")
        assert (await world.client.status(Ring, "a")).state == "failed"
        assert world.counterparty.seen("do") == 1
        await world.client.retry(Ring, "a", by="ann")
        assert await world.ended("ring", "a") == "done"
    assert world.counterparty.accepted == {"ring/a/do-ring~1": 1}


@pytest.mark.parametrize("cached", [1000, 0])
async def test_a_run_terminated_and_started_by_hand_goes_on_from_the_fence(world: World, cached: int) -> None:
    world.counterparty.replies += [{"accept": True, "close": True}]
    async with world.worker(app, max_cached_workflows=cached):
        await world.client.start(Ring, "a", Booking())
        await world.until(lambda: _parked(world), "parked")
        await world.handle("ring", "a").terminate()
        await world.temporal_client.start_workflow(
            "ring", Booking(), id=f"{world.scope}:ring/a", task_queue=world.config.queue
        )
        await world.until(lambda: _parked(world), "parked again")
        assert (await world.client.status(Ring, "a")).state == "doing"
        await world.client.resolve(Ring, "a", EffectStatus.DONE, by="ann", note="it rang", receipt={"number": 1})
        assert await world.ended("ring", "a") == "done"
    assert world.counterparty.seen("do") == 1
    assert await _versions_grow(world)


async def test_a_restarted_entity_started_by_hand_goes_on_in_its_round(world: World) -> None:
    async with world.worker(app):
        await world.client.start(Ring, "a", Booking())
        await world.ended("ring", "a")
        world.counterparty.replies += [{"refused": "no such bell"}]
        assert await world.client.restart(Ring, "a", by="ann", note="again") == 1
        await world.is_in("ring", "a", "failed")
        await world.handle("ring", "a").terminate()
        await world.temporal_client.start_workflow(
            "ring", Booking(), id=f"{world.scope}:ring/a", task_queue=world.config.queue
        )
        await world.until(lambda: _waits_for_retry(world), "it waits for somebody")
        await world.client.retry(Ring, "a", by="ann")
        assert await world.ended("ring", "a") == "done"
    assert [each["key"] for each in world.counterparty.requests] == [
        "ring/a/do-ring",
        "ring/a~1/do-ring",
        "ring/a~1/do-ring~1",
    ]


async def _reset(world: World, kind: str) -> None:
    """Reset it to its first workflow task, so that nothing it did stands in the new history."""
    handle = world.handle(kind, "a")
    described = await handle.describe()
    history = await handle.fetch_history()
    first = next(each.event_id for each in history.events if each.HasField("workflow_task_completed_event_attributes"))
    request = ResetWorkflowExecutionRequest(
        namespace="default",
        workflow_execution=WorkflowExecution(workflow_id=handle.id, run_id=described.run_id),
        reason="a test",
        workflow_task_finish_event_id=first,
        request_id=str(uuid.uuid4()),
    )
    await world.temporal_client.workflow_service.reset_workflow_execution(request)


async def _transitions(world: World) -> list[Any]:
    return await world.db.fetch("select * from perdure.transition order by at")


async def _versions_grow(world: World) -> bool:
    versions = [row["version"] for row in await _transitions(world)]
    return versions == sorted(set(versions))


async def _waits(world: World) -> bool:
    status = await world.at_rest("slow")
    return status is not None and any(each.next_at and each.attempts for each in status.effects)


async def _parked(world: World) -> bool:
    status = await world.at_rest("ring")
    return status is not None and any(each.parked for each in status.effects)


async def _waits_for_retry(world: World) -> bool:
    status = await world.at_rest("ring")
    return status is not None and status.waits_for_retry
