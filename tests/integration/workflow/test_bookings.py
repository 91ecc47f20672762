"""A lifecycle with one effect, in every doubt policy and both ways to run it, on real servers."""

from __future__ import annotations

from datetime import timedelta

import pytest

from tests.apps.bodies import app
from tests.apps.contracts import Booking
from tests.deadline import DEADLINE
from tests.world import World

KINDS = [policy + way for policy in ("lookup", "dedupe", "repeat", "escalate") for way in ("", "-inline")]


@pytest.mark.parametrize("kind", KINDS)
async def test_a_booking_is_done_once_and_every_record_says_so(world: World, kind: str) -> None:
    await world.db.execute("insert into booking (id) values ('a')")
    async with world.worker(app):
        handle = await world.client.start(kind, "a", Booking())
        assert handle.answer == "started"
        end = await handle.wait(timeout=timedelta(seconds=DEADLINE))

    assert (end.state, end.final) == ("done", True)
    assert world.counterparty.accepted == {f"{kind}/a/do-{kind}": 1}
    assert await world.states(kind, "a") == ["starting", "doing", "done"]
    assert await world.db.fetchval("select state from booking where id = 'a'") == "done"
    assert [(each.status.value, each.attempts) for each in end.effects] == [("done", 1)]


@pytest.mark.parametrize(("kind", "most"), [("lookup", 12), ("lookup-inline", 7)])
async def test_one_effect_costs_few_history_events(world: World, kind: str, most: int) -> None:
    async with world.worker(app):
        await world.client.start(kind, "a", Booking())
        await world.ended(kind, "a")
        history = await world.handle(kind, "a").fetch_history()
    assert len(history.events) <= most


@pytest.mark.parametrize("kind", ["lookup", "lookup-inline"])
async def test_one_effect_costs_three_writes(world: World, kind: str) -> None:
    await world.db.execute(f'alter database "{world.dsn.rpartition("/")[2]}" set track_functions = pl')
    async with world.worker(app):
        await world.client.start(kind, "a", Booking())
        await world.ended(kind, "a")

    async def writes() -> int:
        calls = "select calls from pg_stat_user_functions where funcname = 'apply_write'"
        return int(await world.db.fetchval(calls) or 0)

    async def counted() -> bool:
        return await writes() >= 3

    await world.until(counted, "the statistics of the worker's closed connections")
    assert await writes() == 3


async def test_the_engine_repeats_no_attempt_and_no_look_up_by_itself(world: World) -> None:
    world.counterparty.replies = [{"ok": True, "accept": True, "close": True}]
    async with world.worker(app):
        await world.client.start("lookup", "a", Booking())
        await world.ended("lookup", "a")
        history = await world.handle("lookup", "a").fetch_history()

    scheduled = [event.activity_task_scheduled_event_attributes for event in history.events]
    most = {each.activity_type.name: each.retry_policy.maximum_attempts for each in scheduled if each.activity_id}
    assert most == {"do-lookup": 1, "find-booking": 1}
