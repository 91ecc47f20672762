"""What lasts longer than the histories of the lifecycles can be read after the keys were changed as the documentation
says, and a relay that lacks the old key delivers nothing that it can't judge."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import temporalio.client
from temporalio.client import (
    Client,
    ScheduleActionExecutionStartWorkflow,
    ScheduleHandle,
    WorkflowExecutionStatus,
)

import perdure
from perdure import PerdurePlugin
from perdure._reconcile.schedule import _wanted, make_schedule
from perdure._reconcile.starting import start_reconciliation
from perdure._reconcile.workflow import reconciliation_id
from perdure._services.relay import Relay
from perdure._wire.carried import CARRIED, Carried
from perdure._wire.reconciliation import ReconciliationRequest
from perdure.encryption import Private
from perdure.errors import NotNow, TemporalUnavailable, UnknownKey
from perdure.servers.postgres import PostgresServer
from perdure.servers.temporal import TemporalServer
from tests.apps.letters import Letter, Letters, app
from tests.integration.crypto.fixtures import FIRST, SECOND, keys
from tests.world import World


@pytest.fixture
async def world(
    postgres: PostgresServer, temporal: TemporalServer, database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[World]:
    monkeypatch.setenv("PERDURE_KEYS", FIRST)
    made = World(postgres, temporal, database, tmp_path)
    made.config = made.config.model_copy(update=keys(FIRST))
    async with made.made(app) as made:
        yield made


async def client_with(world: World, *given: str) -> Client:
    """A client of Temporal with these keys alone."""
    plugin = PerdurePlugin(app, world.config.model_copy(update=keys(*given)))
    return await temporalio.client.Client.connect(world.temporal.address, plugins=[plugin])


async def test_writes_go_on_after_a_restart_of_postgresql_without_the_old_key(world: World) -> None:
    for given in ((FIRST,), (FIRST, SECOND), (SECOND, FIRST)):
        async with world.worker(app, **keys(*given)):
            pass
    async with world.worker(app, **keys(SECOND)):
        await asyncio.to_thread(world.postgres.restart)
        await world.servers_are_back()
        problem = "select perdure.database_problem() is null"
        await world.until(lambda: world.db.fetchval(problem), "the mark is exchanged")


@pytest.mark.parametrize("encrypted", [False, True], ids=["made now", "made by an earlier release"])
async def test_the_schedule_of_the_reconciliation_runs_without_the_old_key(world: World, encrypted: bool) -> None:
    daily = {"reconciliation_every": 24.0}
    config, whole = world.config.model_copy(update=daily), reconciliation_id(world.scope)
    if encrypted:
        await world.temporal_client.create_schedule(whole, _wanted(config))
    else:
        await make_schedule(world.temporal_client, config)
    schedule = world.temporal_client.get_schedule_handle(whole)
    try:
        async with world.worker(app, **keys(SECOND, FIRST), **daily):
            asked = ReconciliationRequest(by="ann")
            client = await client_with(world, SECOND, FIRST)
            await (await start_reconciliation(client, world.scope, asked)).result()
        async with world.worker(app, **keys(SECOND), **daily):
            await schedule.trigger()
            await world.until(lambda: _has_run(world, schedule), "the reconciliation of the Schedule")
    finally:
        await schedule.delete()


async def _has_run(world: World, schedule: ScheduleHandle) -> bool:
    actions = [each.action for each in (await schedule.describe()).info.recent_actions]
    started = [each for each in actions if isinstance(each, ScheduleActionExecutionStartWorkflow)]
    handles = [
        world.temporal_client.get_workflow_handle(each.workflow_id, run_id=each.first_execution_run_id)
        for each in started
    ]
    seen = [(await each.describe()).status for each in handles]
    return bool(seen) and all(each is WorkflowExecutionStatus.COMPLETED for each in seen)


@pytest.mark.parametrize("given", [(SECOND, FIRST), (SECOND,)], ids=["with the old key", "without it"])
async def test_a_restart_waits_for_an_open_run_that_the_relay_can_not_read(
    world: World, given: tuple[str, ...]
) -> None:
    async with world.worker(app):
        await world.client.start(Letters, "ann", Letter(to=Private("1 Road"), text=Private("Dear")))
        await world.client.signal(Letters, "ann", Letters.send_off)
        assert await world.ended("letter", "ann") == "posted"
        await world.completed("letter", "ann")
    await world.temporal_client.start_workflow(  # its last task might not have been reported yet
        "letter",
        {"to": "1 Road", "text": "Dear"},
        id=f"{world.scope}:letter/ann",
        task_queue=world.config.queue,
        memo={CARRIED: Carried(generation=0)},
    )
    await world.client.restart(Letters, "ann", by="ann", note="again")
    relay = Relay(
        world.client._pool, await client_with(world, *given), app, world.config.model_copy(update=keys(*given))
    )
    await relay.once()
    await relay.leave()
    (left,) = await world.db.fetch("select kind, tries, error from perdure.outbox")
    assert (left["kind"], left["tries"]) == ("start", 1)
    assert ("the run of generation 0 is still closing" if FIRST in given else "can't be read") in left["error"]


async def test_an_act_is_encrypted_with_the_key_of_the_run_or_not_sent(world: World) -> None:
    async def acting(*given: str) -> None:
        config = world.config.model_copy(update=keys(*given))
        client = perdure.Client(world.client._pool, await client_with(world, *given), config=config)
        await client.retry(Letters, "ann", by="ann", note="once more")

    async with world.worker(app):
        await world.client.start(Letters, "ann", Letter(to=Private("1 Road"), text=Private("Dear")))
        await world.until_delivered("letter", "ann")
        with pytest.raises(
            UnknownKey, match=r"letter/ann: nothing was sent, since its run can't be read here: .* 'first'"
        ):
            await acting(SECOND)
        with pytest.raises(NotNow, match="nothing waits"):  # by the workflow
            await acting(SECOND, FIRST)
    async with world.worker(app, **keys(SECOND, FIRST)):
        with pytest.raises(TemporalUnavailable, match=r"the answer can't be read, .* 'second'"):
            await acting(FIRST)
        await world.client.signal(Letters, "ann", Letters.send_off)
        assert await world.ended("letter", "ann") == "posted"


async def test_a_reconciliation_that_is_requested_with_a_key_that_no_worker_has_runs(world: World) -> None:
    async with world.worker(app):
        stranger, asked = await client_with(world, SECOND), ReconciliationRequest(by="ann")
        begun = await start_reconciliation(stranger, world.scope, asked)
        assert (await world.temporal_client.get_workflow_handle(begun.id).result()) is not None
