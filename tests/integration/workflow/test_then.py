"""A state that is committed with the outcome saves a write and its events, and is shown like any other."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from temporalio.api.enums.v1 import EventType

from tests.apps import beside_end
from tests.apps.contracts import Booking
from tests.apps.straight import Straight, StraightInline, app
from tests.deadline import DEADLINE
from tests.world import World


@pytest.mark.parametrize(("lifecycle", "events"), [(Straight, 11), (StraightInline, 6)])
async def test_an_effect_and_its_end_cost_two_writes(world: World, lifecycle: Any, events: int) -> None:
    await world.db.execute(f'alter database "{world.dsn.rpartition("/")[2]}" set track_functions = pl')
    await world.db.execute("insert into booking (id) values ('a')")
    async with world.worker(app):
        handle = await world.client.start(lifecycle, "a", Booking())
        end = await handle.wait(timeout=timedelta(seconds=DEADLINE))
        await world.handle(handle.entity.lifecycle, "a").result()
        history = await world.handle(handle.entity.lifecycle, "a").fetch_history()

    name = handle.entity.lifecycle
    assert (end.state, [each.status.value for each in end.effects]) == ("done", ["done"])
    assert await world.states(name, "a") == ["starting", "doing", "done"]
    assert await world.db.fetchval("select state from booking where id = 'a'") == "done"
    assert list(world.counterparty.accepted.values()) == [1]
    assert len(history.events) == events, [EventType.Name(each.event_type) for each in history.events]
    calls = "select calls from pg_stat_user_functions where funcname = 'apply_write'"

    async def counted() -> bool:
        return int(await world.db.fetchval(calls) or 0) >= 2

    await world.until(counted, "the statistics of the worker's closed connections")
    assert await world.db.fetchval(calls) == 2


async def test_a_column_that_the_app_refuses_delays_no_outcome(world: World) -> None:
    """The app's CHECK refuses the state; the effect is done, and the mirror knows."""
    await world.db.execute("insert into booking (id) values ('a')")
    await world.db.execute("alter table booking add check (state <> 'done')")
    async with world.worker(app):
        handle = await world.client.start(Straight, "a", Booking())
        end = await handle.wait(timeout=timedelta(seconds=DEADLINE))

    assert (end.state, [each.status.value for each in end.effects]) == ("done", ["done"])
    assert await world.db.fetchval("select state from booking") in ("pending", "doing")
    assert await world.db.fetchval("select count(distinct id) from perdure.behind") == 1


@pytest.mark.world(beside_end.app)
@pytest.mark.parametrize("lifecycle", [beside_end.InBranches, beside_end.InHandler])
async def test_an_end_waits_for_an_effect_that_began_after_its_order(world: World, lifecycle: Any) -> None:
    name = lifecycle.__temporal_workflow_definition.name
    async with world.worker(beside_end.app):
        await world.client.start(lifecycle, "a", name)
        if lifecycle is beside_end.InHandler:
            await world.client.signal(lifecycle, "a", "tell", name)
        assert await world.ended(name, "a") == "over"
    assert name in beside_end.MAILED
    assert {each["status"] for each in await world.db.fetch("select status from perdure.effect")} == {"done"}
