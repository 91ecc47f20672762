"""An installation recovers by itself after all its workflows were terminated, the keeper of its database included."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import partial

import pytest
from temporalio.api.common.v1 import WorkflowExecution
from temporalio.api.workflowservice.v1 import DeleteWorkflowExecutionRequest
from temporalio.client import Client, WorkflowExecutionStatus
from temporalio.contrib.pydantic import pydantic_data_converter
from temporalio.service import RPCError, RPCStatusCode

from perdure._services.ownership.exchange import Exchange
from perdure._services.ownership.keeper import Keeper, keeper_id
from perdure._services.ownership.ownership import Ownership
from perdure._wire.keeper import Decision, Incarnation, Proposal
from perdure.errors import NotThisDatabase
from tests.apps.contracts import Booking
from tests.apps.failing import app
from tests.integration.reconcile.reconciling import Reconciling, begun, is_open
from tests.world import World, answer_to

pytestmark = pytest.mark.world(app, reconciliation_every=24.0)

TICK = 0.3
PROBLEM = "select perdure.database_problem()"


@pytest.fixture(autouse=True)
def short_ticks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Marks are exchanged more often than in production."""
    monkeypatch.setattr("perdure._services.ownership.ownership.TICK", TICK)


async def keeper_of(world: World) -> WorkflowExecutionStatus | None:
    """How its keeper is; None = Temporal has none."""
    try:
        return (await world.temporal_client.get_workflow_handle(keeper_id(world.scope)).describe()).status
    except RPCError as error:
        if error.status is not RPCStatusCode.NOT_FOUND:
            raise
        return None


async def keeps(world: World) -> bool:
    """Whether its keeper runs, and the database was verified with it since."""
    return await keeper_of(world) is WorkflowExecutionStatus.RUNNING and await exchanged(world)


async def exchanged(world: World) -> bool:
    """Whether the keeper that runs has heard this database."""
    answer = await answer_to(world.temporal_client.get_workflow_handle(keeper_id(world.scope)), Keeper.kept)
    if answer is None:
        return False
    (kept,) = answer
    mark = await world.db.fetchval("select mark from perdure.database")
    return mark in (kept.current, *kept.pending) and await world.db.fetchval(PROBLEM) is None


async def epoch(world: World) -> int:
    return int(await world.db.fetchval("select epoch from perdure.database"))


async def ended_in_bulk(world: World) -> None:
    """Terminate all that this installation runs in Temporal, as a batch of the Web UI does."""
    ours = f"WorkflowId STARTS_WITH '{world.scope}:' OR WorkflowId = '{keeper_id(world.scope)}'"
    running = f"({ours}) AND ExecutionStatus = 'Running'"

    async def listed() -> bool:
        return (await world.temporal_client.count_workflows(running)).count == 3

    await world.until(listed, "all are listed")
    await world.temporal_command("workflow", "terminate", "--query", running, "--reason", "a slip", "--yes")

    async def all_closed() -> bool:
        return (await world.temporal_client.count_workflows(f"({ours}) AND ExecutionStatus = 'Terminated'")).count >= 3

    await world.until(all_closed, "the batch is through")


async def test_all_workflows_are_terminated_and_everything_goes_on(
    world: World, reconciliation: Reconciling, caplog: pytest.LogCaptureFixture
) -> None:
    await begun(world, "staying/a", "stubborn/b")
    before = await epoch(world)
    await ended_in_bulk(world)
    await world.until(partial(keeps, world), "the keeper is back")
    assert "the keeper was ended from outside: it starts again from its last state" in caplog.messages
    assert "nothing is sent from here" not in caplog.messages
    assert await epoch(world) == before, "nothing was lost, so nothing is in doubt"

    await reconciliation.open_entities()
    await world.until(partial(is_open, world, "stubborn", "b"), "if_ended = 'again'")
    assert "its workflow was terminated: a slip" in str((await world.client.status("staying", "a")).attention)
    await world.handle("stubborn", "b").signal("go")
    assert await world.ended("stubborn", "b") == "out"
    await world.client.start("lookup", "new", Booking())
    assert await world.ended("lookup", "new") == "done"


@pytest.mark.parametrize("how", ["terminate", "cancel"])
async def test_a_worker_that_starts_finds_the_ended_keeper_and_goes_on(world: World, how: str) -> None:
    async with world.worker(app):
        await begun(world, "staying/a")
    handle = world.temporal_client.get_workflow_handle(keeper_id(world.scope))
    if how == "terminate":
        await handle.terminate()
    else:
        exchange = Exchange(world.temporal_client, world.config)
        async with exchange.answering():
            await handle.cancel()

            async def closed() -> bool:
                return await keeper_of(world) is WorkflowExecutionStatus.CANCELED

            await world.until(closed, "cancelled")
    await world.mark_grows_old()
    async with world.worker(app):
        await world.until(partial(keeps, world), "the keeper is back")
        await world.handle("staying", "a").signal("go")
        assert await world.ended("staying", "a") == "out"


async def test_a_copy_that_finds_the_ended_keeper_first_is_told_by_it(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    silence = 1.0
    monkeypatch.setattr("perdure._wire.keeper.SILENCE", silence)
    async with world.worker(app):
        await world.until(partial(keeps, world), "bound")
    row = await world.db.fetchrow("select * from perdure.database")
    assert row is not None
    await world.temporal_client.get_workflow_handle(keeper_id(world.scope)).terminate()
    exchange = Exchange(world.temporal_client, world.config)
    original = Incarnation(
        system_identifier=row["system_identifier"],
        database_oid=row["database_oid"],
        timeline=row["timeline"],
        started=row["postmaster_started"],
    )
    silent_since = datetime.now(UTC)
    await world.until(lambda: (datetime.now(UTC) - silent_since).total_seconds() > silence, "nobody is heard")
    async with exchange.answering():
        promoted = original.model_copy(update={"timeline": row["timeline"] + 1})
        late = await exchange.propose(Proposal(mark=row["mark"], next="z", incarnation=promoted))
        assert late.decision is Decision.WAIT, "the original could not be heard while there was no keeper"
        copy = await exchange.propose(Proposal(mark="an old one", next="x", incarnation=original))
        assert copy.decision is Decision.STOP
        assert "its mark is not the last one" in copy.why
        fresh = original.model_copy(update={"database_oid": 1})
        assert (await exchange.propose(Proposal(mark=None, next="y", incarnation=fresh))).decision is Decision.STOP
        assert (
            await exchange.propose(Proposal(mark=row["mark"], next="m", incarnation=original))
        ).decision is Decision.GO


async def test_two_that_find_the_ended_keeper_go_on_with_one(world: World, caplog: pytest.LogCaptureFixture) -> None:
    async with world.worker(app):
        await world.until(partial(keeps, world), "bound")
    handle = world.temporal_client.get_workflow_handle(keeper_id(world.scope))
    before = (await handle.describe()).run_id
    await handle.terminate()
    async with world.worker(app), world.worker(app):
        await world.until(partial(keeps, world), "the keeper is back")
        assert (await handle.describe()).run_id != before
        await world.client.start("lookup", "a", Booking())
        assert await world.ended("lookup", "a") == "done"
    assert "nothing is sent from here" not in caplog.messages


async def test_a_keeper_that_was_deleted_proves_nothing_and_the_log_names_what_to_do(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    async with world.worker(app):
        await begun(world, "staying/a")
        await world.temporal_client.workflow_service.delete_workflow_execution(
            DeleteWorkflowExecutionRequest(
                namespace=world.temporal_client.namespace,
                workflow_execution=WorkflowExecution(workflow_id=keeper_id(world.scope)),
            )
        )
        await world.until(lambda: "nothing is sent from here" in caplog.messages, "the worker says so")
        [why] = {record.perdure["why"] for record in caplog.records if record.message == "nothing is sent from here"}  # type: ignore[attr-defined]
        assert f"Temporal has no record of this database any more (workflow {keeper_id(world.scope)} is gone)" in why
        assert "if only that workflow was deleted: perdure database claim --as moved" in why
        assert "if Temporal was lost and made anew: perdure recover" in why
    assert await keeper_of(world) is None
    pool = world.client._pool
    exchange = Exchange(world.temporal_client, world.config)
    async with exchange.answering():
        with pytest.raises(NotThisDatabase, match="perdure database claim --as moved"):
            await Ownership(pool, exchange).claim()


async def test_a_namespace_that_is_missing_does_not_stop_the_database(world: World) -> None:
    nowhere = await Client.connect(world.temporal.address, namespace="nowhere", data_converter=pydantic_data_converter)
    server = Incarnation(system_identifier=1, database_oid=1, timeline=1, started=datetime.now(UTC))
    with pytest.raises(RPCError, match="Namespace nowhere is not found"):
        await Exchange(nowhere, world.config).propose(Proposal(mark="m", next="n", incarnation=server))
