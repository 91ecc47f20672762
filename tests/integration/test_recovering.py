"""Open lifecycles whose workflow is gone go on from their record, as if they had gone on in a new run."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from temporalio.api.common.v1 import WorkflowExecution
from temporalio.api.workflowservice.v1 import DeleteWorkflowExecutionRequest
from temporalio.service import RPCError

from infra.postgres import PostgresServer
from infra.temporal import TemporalServer
from perdure.contracts.outcomes import Status
from perdure.recovering.recovery import Recovered, recover
from tests.apps.lasting import KeptSale, Sale, app
from tests.world import World

CLOSES = {"close": True}
"""What the other side does with a request that leaves a doubt."""


@pytest.fixture
async def world(
    postgres: PostgresServer, temporal: TemporalServer, database: str, tmp_path: Path
) -> AsyncIterator[World]:
    """A world of sales."""
    async with World(postgres, temporal, database, tmp_path).made(app) as made:
        yield made


async def start(world: World, entity_id: str, *, kind: str = "sale", **sale: Any) -> None:
    """Start one."""
    await world.client.start(kind, entity_id, Sale(**sale))


async def without(world: World, *names: str) -> None:
    """Delete these workflows from Temporal, `lifecycle/id`, and wait until they are gone."""
    for name in names:
        await world.engine.workflow_service.delete_workflow_execution(
            DeleteWorkflowExecutionRequest(
                namespace=world.engine.namespace,
                workflow_execution=WorkflowExecution(workflow_id=f"{world.scope}/{name}"),
            )
        )
    for name in names:

        async def gone(name: str = name) -> bool:
            try:
                await world.handle(*name.split("/")).describe()
            except RPCError:
                return True
            return False

        await world.until(gone, f"{name} deleted")


async def recovered(world: World) -> Recovered:
    """Recover all that is open."""
    return await recover(world.client._pool, world.engine, world.scope, by="ann", why="the cluster burnt down")


async def parked(world: World, entity_id: str) -> bool:
    """Whether it waits for a person."""
    return any(each.parked for each in (await world.asked("sale", entity_id)).effects)


async def test_what_was_done_heard_or_parked_stays_so_and_all_of_it_goes_on(world: World) -> None:
    heard, told, doubtful, refused, late = "heard", "told", "doubtful", "refused", "late"
    soon = datetime.now(UTC) + timedelta(seconds=4)
    world.counterparty.replies_to[doubtful] = [{"ok": True, "accept": True}, CLOSES]
    world.counterparty.replies_to[refused] = [{"refused": "sold out"}]
    async with world.worker(app):
        await start(world, heard, words=2)
        await start(world, told, kind="forgetful-sale", words=2)
        await start(world, doubtful, words=0)
        await start(world, refused)
        await start(world, late, words=9, until=soon)
        for kind, each in (("sale", heard), ("forgetful-sale", told), ("sale", late)):
            await world.is_in(kind, each, "reserved")
            await world.client.signal(kind, each, "hear", 1)
        await world.is_in("sale", refused, "refused")
        await world.until(lambda: parked(world, doubtful), "parked")
        count = "select count(*) from perdure.message where delivered_at is not null"
        await world.until(lambda: world.db.fetchval(f"{count} having count(*) = 3"), "delivered")
    calls = world.counterparty.accepted.total()
    ours = [f"sale/{each}" for each in (heard, doubtful, refused, late)] + [f"forgetful-sale/{told}"]
    await without(world, *ours)

    assert await recovered(world) == Recovered(open=5, started=5)

    async with world.worker(app):
        await world.until(lambda: parked(world, doubtful), "parked again")
        assert (await world.asked("sale", refused)).waits_for_retry
        for kind, each in (("sale", heard), ("forgetful-sale", told)):
            await world.client.signal(kind, each, "hear", 2)
            assert await world.ended(kind, each) == "paid"
        why = "select why from perdure.transition where state = 'paid'"
        assert {row["why"] for row in await world.db.fetch(why)} == {"words [1, 2]"}
        assert await world.ended("sale", late) == "expired"
        assert timedelta(0) <= datetime.now(UTC) - soon < timedelta(seconds=3)
        await world.client.resolve("sale", doubtful, Status.NOT_DONE, by="ann", note="not on their list")
        assert await world.ended("sale", doubtful) == "paid"
        await world.client.retry("sale", refused, by="ann")
        await world.is_in("sale", refused, "reserved")
    assert world.counterparty.accepted.total() == calls + 4
    assert set(world.counterparty.accepted.values()) == {1}
    noted = "select made_by, why from perdure.transition where id = 'late' and made_by is not null"
    assert [tuple(row) for row in await world.db.fetch(noted)] == [("ann", "the cluster burnt down")]


async def test_while_all_is_well_nothing_is_changed(world: World) -> None:
    async with world.worker(app):
        await start(world, "open")
        await start(world, "paid", words=0)
        await world.is_in("sale", "open", "reserved")
        await world.ended("sale", "paid")
        before = await everything(world)

        assert await recovered(world) == Recovered(open=1, running=1)

        assert await everything(world) == before


async def test_an_end_that_was_asked_for_comes_when_the_doubt_is_settled(world: World) -> None:
    world.counterparty.replies_to["a"] = [{"ok": True, "accept": True}, CLOSES]
    async with world.worker(app):
        await start(world, "a", words=0)
        await world.until(lambda: parked(world, "a"), "parked")
        await world.db.fetchval("select perdure.cancel('sale', 'a', 'bob', 'changed his mind')")
        delivered = "select count(*) = 1 from perdure.message where delivered_at is not null"
        await world.until(lambda: world.db.fetchval(delivered), "delivered")
    await without(world, "sale/a")

    await recovered(world)

    async with world.worker(app):
        await world.until(lambda: parked(world, "a"), "parked again")
        await world.client.resolve("sale", "a", Status.ABANDONED, by="ann", note="nobody knows")
        assert await world.ended("sale", "a") == "cancelled"


async def test_one_that_goes_on_by_itself_is_left_alone(world: World) -> None:
    async with world.worker(app):
        await start(world, "a")
        await world.is_in("sale", "a", "reserved")
        version = await world.db.fetchval("select version from perdure.ident")
    await start(world, "b")
    again = "select perdure.start_again('sale', $1, 0, $2, 'ann', 'lost')"
    assert await world.db.fetchval(again, "b", 0) is False, "its start is on its way"
    assert await world.db.fetchval(again, "a", version - 1) is False, "it was written since"
    assert await world.db.fetchval(again, "a", version) is True
    assert await world.db.fetchval(again, "a", version) is False, "its start is on its way now"
    async with world.worker(app):  # the run that is open goes on, and hears nothing twice
        await world.is_in("sale", "b", "reserved")
        for each in ("a", "b"):
            await world.client.signal("sale", each, "hear", 1)
            assert await world.ended("sale", each) == "paid"
    assert set(world.counterparty.accepted.values()) == {1}


async def test_two_that_recover_at_once_start_each_once(world: World) -> None:
    async with world.worker(app):
        for number in range(20):
            await start(world, str(number), words=0 if number < 10 else 1)
        for number in range(10, 20):
            await world.is_in("sale", number, "reserved")
        for number in range(10):
            await world.ended("sale", number)
    await without(world, *(f"sale/{number}" for number in range(10, 20)))

    both = await asyncio.gather(recovered(world), recovered(world))

    assert sum(each.started for each in both) == 10
    assert await world.db.fetchval("select count(*) from perdure.outbox where kind = 'start'") == 10


async def test_the_input_that_todays_code_can_not_read_is_said_by_the_run(world: World) -> None:
    async with world.worker(app):
        await start(world, "a")
        await world.is_in("sale", "a", "reserved")
    await without(world, "sale/a")
    await world.db.execute('update perdure.entity set input = \'{"words": "many"}\'')
    await recovered(world)
    async with world.worker(app):

        async def says() -> bool:
            return "the input can't be read" in str((await world.client.status("sale", "a")).attention)

        await world.until(says, "it stands still and says why")


async def test_a_mirror_that_lost_its_row_is_given_it_again(world: World) -> None:
    async with world.worker(app) as engine:
        handle = await engine.start_workflow(
            KeptSale.run, Sale(), id=f"{world.scope}/sale/a", task_queue=world.config.task_queue
        )
        await world.until(lambda: world.db.fetchval("select true from perdure.entity where state = 'reserved'"), "on")
        await world.db.execute("delete from perdure.entity; delete from perdure.ident; delete from perdure.transition")

        await handle.signal("perdure-mirror", "clean-up")

        await world.until(lambda: world.db.fetchval("select true from perdure.entity"), "the row")
        row = await world.db.fetchrow("select state, input, round from perdure.entity")
        assert row is not None
        assert (row["state"], row["round"]) == ("reserved", 0)
        assert Sale.model_validate_json(row["input"]) == Sale()
        await world.client.signal("sale", "a", "hear", 1)
        assert await world.ended("sale", "a") == "paid"


async def test_a_run_that_waits_ends_where_the_database_says_that_it_is_over(world: World) -> None:
    world.counterparty.replies_to["parked"] = [{"ok": True, "accept": True}, CLOSES]
    async with world.worker(app):
        await start(world, "waits")
        await start(world, "parked", words=0)
        await world.is_in("sale", "waits", "reserved")
        await world.until(lambda: parked(world, "parked"), "parked")
        await world.db.execute("update perdure.ident set final = 'paid'; delete from perdure.entity")
        for each in ("waits", "parked"):
            await world.handle("sale", each).signal("perdure-mirror", "clean-up")
            await asyncio.wait_for(world.handle("sale", each).result(), 30)
    assert await world.db.fetchval("select count(*) from perdure.entity") == 0


async def everything(world: World) -> list[Any]:
    """All rows of perdure's tables that a recovery could change."""
    tables = ("ident", "entity", "effect", "outbox", "message", "rejected", "transition", "finding")
    return [await world.db.fetch(f"select * from perdure.{table} order by 1, 2, 3") for table in tables]
