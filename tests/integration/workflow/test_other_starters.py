"""Any Temporal client can start a lifecycle: the `temporal` command, a plain SDK client, an app's own worker."""

from __future__ import annotations

import json
import uuid
from datetime import timedelta
from typing import Any

import pytest
import temporalio.client
from temporalio import activity, workflow
from temporalio.client import WorkflowFailureError
from temporalio.contrib.pydantic import pydantic_data_converter
from temporalio.exceptions import ApplicationError
from temporalio.worker import Worker

from perdure import App, PerdurePlugin
from perdure.errors import DeclarationError
from tests.apps.bodies import app
from tests.apps.bookings import LookupBooking
from tests.apps.contracts import Booking
from tests.deadline import in_time
from tests.running import running
from tests.world import World


async def test_the_temporal_command_starts_an_entity_like_any_other(world: World) -> None:
    async with world.worker(app):
        await world.temporal_command("workflow", "start", *_start(world, "lookup/a", '{"what": "this"}'))
        await world.until(lambda: world.db.fetchval("select count(*) = 1 from perdure.finished"), "done")
    assert world.counterparty.accepted == {"lookup/a/do-lookup": 1}
    assert await world.states("lookup", "a") == ["pending", "doing", "done"]
    assert json.loads(await world.db.fetchval("select input from perdure.finished")) == {"what": "this", "seconds": 0}
    assert (await world.client.start(LookupBooking, "a", Booking())).finished


async def test_a_plain_client_starts_an_entity_like_any_other(world: World) -> None:
    plain = await temporalio.client.Client.connect(world.temporal.address, data_converter=pydantic_data_converter)
    world.counterparty.before_accepting.shut()
    async with world.worker(app):
        running = await plain.start_workflow(
            LookupBooking.run, Booking(what="this"), id=f"{world.scope}:lookup/a", task_queue=world.config.queue
        )
        await world.counterparty.saw("do")
        status = await world.client.status(LookupBooking, "a")
        assert (status.state, status.waits_for_delivery) == ("doing", False)
        assert json.loads(await world.db.fetchval("select input from perdure.entity"))["what"] == "this"
        assert (await world.client.start(LookupBooking, "a", Booking())).answer == "open"
        world.counterparty.before_accepting.open()
        await running.result()
    assert world.counterparty.accepted == {"lookup/a/do-lookup": 1}


async def test_a_finished_entity_started_past_perdure_makes_no_call_and_ends_as_it_had(world: World) -> None:
    async with world.worker(app):
        await world.client.start(LookupBooking, "a", Booking())
        await world.ended("lookup", "a")
        await world.handle("lookup", "a").result()
        await world.until(lambda: world.db.fetchval("select count(*) = 0 from perdure.outbox"), "delivered")
        before = await world.client.status(LookupBooking, "a"), await world.states("lookup", "a")
        await world.temporal_command("workflow", "execute", *_start(world, "lookup/a", "{}"))
    assert (await world.client.status(LookupBooking, "a"), await world.states("lookup", "a")) == before
    assert world.counterparty.seen("do") == 1


async def test_a_workflow_id_that_names_no_entity_fails_with_one_sentence(world: World) -> None:
    async with world.worker(app):
        with pytest.raises(WorkflowFailureError) as failed:
            await world.temporal_client.execute_workflow(
                "lookup", Booking(), id=f"{uuid.uuid4()}", task_queue=world.config.queue
            )
    assert isinstance(failed.value.cause, ApplicationError)
    assert "does not name an entity of 'lookup': start it as 'lookup/<entity id>'" in failed.value.cause.message
    assert world.counterparty.seen("do") == 0


async def test_an_input_that_does_not_validate_fails_with_one_sentence(world: World) -> None:
    async with world.worker(app):
        handle = await world.temporal_client.start_workflow(
            "lookup", {"seconds": "many"}, id=f"{world.scope}:lookup/a", task_queue=world.config.queue
        )
        with pytest.raises(WorkflowFailureError) as failed:
            await in_time(handle.result())
    assert isinstance(failed.value.cause, ApplicationError)
    assert failed.value.cause.message == (
        "lookup: the input does not fit: seconds: Input should be a valid number, unable to parse string as a number"
    )
    assert await world.db.fetchval("select count(*) from perdure.ident") == 0


@workflow.defn(name="greet")
class Greet:
    """Somebody's own workflow."""

    @workflow.run
    async def run(self, whom: str) -> str:
        """Greet by an activity."""
        return await workflow.execute_activity(greeting, whom, start_to_close_timeout=timedelta(seconds=5))


@activity.defn
async def greeting(whom: str) -> str:
    """Somebody's own activity."""
    return f"hello {whom}"


async def test_a_worker_that_somebody_already_has_runs_lifecycles_beside_its_own(world: World) -> None:
    client = await temporalio.client.Client.connect(world.temporal.address, data_converter=pydantic_data_converter)
    plugin = PerdurePlugin(app, world.config)
    own: dict[str, Any] = {"workflows": [Greet], "activities": [greeting]}
    async with running(Worker(client, task_queue=world.config.queue, plugins=[plugin], **own)):
        greeted = await client.execute_workflow(
            Greet.run, "ann", id=f"greet-{world.scope}", task_queue=world.config.queue
        )
        await world.client.start(LookupBooking, "a", Booking())
        assert await world.ended("lookup", "a") == "done"
    assert greeted == "hello ann"


async def test_a_worker_whose_client_can_not_carry_the_models_is_refused(world: World) -> None:
    client = await temporalio.client.Client.connect(world.temporal.address)
    with pytest.raises(DeclarationError, match="the worker's client can't carry perdure's models: connect it with"):
        Worker(client, task_queue=world.config.queue, plugins=[PerdurePlugin(app, world.config)])


def test_an_effect_without_a_body_is_an_error_of_the_app() -> None:
    with pytest.raises(DeclarationError, match=r"Effect\('do-lookup'\) of 'lookup' has no body: give App\("):
        App([LookupBooking], [])


def _start(world: World, entity: str, given: str) -> list[str]:
    kind = entity.partition("/")[0]
    names = ["--workflow-id", f"{world.scope}:{entity}", "--type", kind, "--task-queue", world.config.queue]
    return [*names, "--input", given]
