"""Two databases in one Temporal namespace: nothing of one is done by the workers of the other."""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path

import pytest
from temporalio import workflow
from temporalio.client import WorkflowFailureError
from temporalio.exceptions import ActivityError, ApplicationError, FailureError
from temporalio.worker import UnsandboxedWorkflowRunner, Worker

from perdure import Client, Entity
from perdure._services.ownership.exchange import plain
from perdure._wire.orders import AttemptOrder, Report
from perdure._wire.writes import Fence, FenceOp, Write
from perdure.contracts import EffectStatus
from perdure.errors import DeclarationError, NotThisDatabase
from perdure.servers.postgres import PostgresServer
from perdure.servers.temporal import TemporalServer
from tests.apps.bodies import app
from tests.apps.contracts import Booking
from tests.conftest import as_admin
from tests.world import WorkerProcess, World

IDS = [f"e{number}" for number in range(12)]


@pytest.fixture
async def other(postgres: PostgresServer, temporal: TemporalServer, tmp_path: Path) -> AsyncIterator[World]:
    """A second database with a scope, workers and an other side of its own, in the same namespace."""
    name = "test_" + secrets.token_hex(6)
    folder = tmp_path / "other"
    folder.mkdir()
    await as_admin(postgres, f"create database {name} template perdure_template")
    async with World(postgres, temporal, name, folder).made(app) as made:
        yield made
    await as_admin(postgres, f"drop database {name} with (force)")


async def spawn(world: World, count: int = 1, **environment: str) -> None:
    """Workers whose credentials are this world's: they reach its other side and no other."""
    for _ in range(count):
        await world.spawn(COUNTERPARTY_PORT=str(world.counterparty.port), **environment)


async def test_each_database_is_served_by_its_own_workers_alone(world: World, other: World) -> None:
    await spawn(world, 2)
    await spawn(other, 2)
    for entity_id in IDS:
        for each in (world, other):
            await each.client.start("lookup", entity_id, Booking())
    for each in (world, other):
        for entity_id in IDS:
            assert await each.ended("lookup", entity_id) == "done"
        assert each.counterparty.accepted == {f"lookup/{entity_id}/do-lookup": 1 for entity_id in IDS}
        assert await each.db.fetchval("select count(*) from perdure.effect where status = 'done'") == len(IDS)


async def test_a_database_without_a_scope_and_a_scope_named_like_its_lifecycle_share_nothing() -> None:
    assert Entity("lookup", "repeat/7").workflow_id(None) != Entity("repeat", "7").workflow_id("lookup")


async def refused(world: World, **settings: str) -> str:
    """What a worker with these settings reports when it does not start."""
    worker = WorkerProcess(world, "tests.apps.bodies:app", settings)
    world.workers.append(worker)
    await worker.launch()
    assert await worker.gone() == 1
    noise = ("PostgreSQL may lose", "is a superuser", "Beginning worker shutdown")
    lines = [line for line in worker.log.read_text().splitlines() if not any(each in line for each in noise)]
    assert len(lines) == 1, lines
    return lines[0]


async def test_a_worker_with_the_scope_of_another_database_does_not_start(world: World, other: World) -> None:
    await spawn(world)
    await spawn(other)
    line = await refused(world, PERDURE_SCOPE=other.scope)
    assert f"this database works with PERDURE_SCOPE={world.scope!r}, and here is PERDURE_SCOPE={other.scope!r}" in line
    line = await refused(other, PERDURE_DATABASE_URL=world.dsn)
    assert f"this database works with PERDURE_SCOPE={world.scope!r}, and here is PERDURE_SCOPE={other.scope!r}" in line


async def test_a_new_database_with_a_scope_that_is_taken_does_not_start(world: World, other: World) -> None:
    await spawn(world)
    line = await refused(other, PERDURE_SCOPE=world.scope)
    assert "another database works with this namespace and scope" in line
    assert "choose another PERDURE_SCOPE" in line


async def test_a_client_with_the_scope_of_another_database_asks_nobody(world: World, other: World) -> None:
    """The other database has an entity of the same lifecycle and id, whose workflow such a client would reach."""
    for each in (world, other):
        each.counterparty.before_accepting.shut()
        await spawn(each)
        await each.client.start("escalate", "e1", Booking())
        await each.counterparty.saw("do")
    wrong = world.config.model_copy(update={"scope": other.scope})
    async with Client.connect(wrong, temporal_client=world.temporal_client, app=app) as client:
        for ask in (
            client.cancel("escalate", "e1", by="ann"),
            client.retry("escalate", "e1", by="ann"),
            client.send_again("escalate", "e1", by="ann", note="again"),
            client.resolve("escalate", "e1", EffectStatus.ABANDONED, by="ann", note="given up"),
        ):
            with pytest.raises(NotThisDatabase, match="set it right") as refused:
                await ask
            assert f"PERDURE_SCOPE={world.scope!r}, this client with PERDURE_SCOPE={other.scope!r}" in str(
                refused.value
            )
    for each in (world, other):
        each.counterparty.before_accepting.open()
        assert await each.ended("escalate", "e1") == "done"


async def test_a_worker_object_on_the_task_queue_of_another_scope_is_refused(world: World, other: World) -> None:
    way_out = r"is not of this scope .*: give the worker task_queue=plugin\.config\.queue"
    with pytest.raises(DeclarationError, match=way_out):
        Worker(world.temporal_client, task_queue=other.config.queue)


async def test_a_workflow_that_somebody_starts_with_the_id_of_another_scope_does_nothing(
    world: World, other: World
) -> None:
    """Whoever may write to Temporal can start any workflow on any task queue."""
    async with world.worker(app):
        handle = await world.temporal_client.start_workflow(
            "lookup", Booking(), id=f"{other.scope}:lookup/e1", task_queue=world.config.queue
        )
        with pytest.raises(WorkflowFailureError) as raised:
            await handle.result()
    assert isinstance(raised.value.cause, ApplicationError)
    assert raised.value.cause.type == NotThisDatabase.__name__
    assert not world.counterparty.seen("do")
    assert await world.db.fetchval("select count(*) from perdure.ident") == 0


@workflow.defn
class Forger:
    """Orders an attempt for an entity that is not its own."""

    @workflow.run
    async def run(self, queue: str, order: AttemptOrder) -> Report:
        """See the class."""
        report: Report = await workflow.execute_activity(
            "do-lookup", order, task_queue=queue, result_type=Report, start_to_close_timeout=timedelta(seconds=30)
        )
        return report


async def test_an_attempt_that_another_workflow_orders_is_refused_before_anything_is_done(world: World) -> None:
    """Whoever may write to Temporal can schedule any activity on any task queue."""
    fence = Fence(op=FenceOp.BEGIN, key="lookup/victim/do-lookup", effect="do-lookup", token="t")
    own = f"{world.scope}:lookup/victim"
    write = Write(lifecycle="lookup", id="victim", generation=0, version=1, workflow_id=own, fence=fence)
    order = AttemptOrder(write=write, input={}, number=1, timeout=5)
    client = plain(world.temporal_client)  # without the plugin: it knows this namespace and nothing else
    runner = UnsandboxedWorkflowRunner()
    async with world.worker(app), Worker(client, task_queue="forger", workflows=[Forger], workflow_runner=runner):
        given = [world.config.queue, order]
        handle = await client.start_workflow(Forger.run, args=given, id=f"forger {world.scope}", task_queue="forger")
        with pytest.raises(WorkflowFailureError) as raised:
            await handle.result()
    cause: BaseException | None = raised.value.cause
    assert isinstance(cause, ActivityError)
    assert isinstance(cause.cause, FailureError)
    assert "lookup/victim belongs to the workflow" in str(cause.cause)
    assert not world.counterparty.seen("do")
    assert await world.db.fetchval("select count(*) from perdure.effect") == 0
