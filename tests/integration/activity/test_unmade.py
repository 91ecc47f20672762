"""An attempt that was never made counts for nothing, and one that comes too late for its doubt policy is not made."""

from __future__ import annotations

import signal
from functools import partial
from typing import Any

import pytest
from temporalio.service import RPCError

from tests.apps.contracts import Booking
from tests.apps.sparing import WITHIN, app
from tests.command import perdure
from tests.world import World

pytestmark = pytest.mark.world(app)

APP = "tests.apps.sparing:app"
ACCEPTED_UNSAID = {"accept": True, "close": True}
ONCE = pytest.mark.parametrize("kind", ["once", "once-inline"])


@ONCE
async def test_an_attempt_that_postgresql_could_not_put_on_record_uses_up_no_retry(world: World, kind: str) -> None:
    async with world.worker(app):
        async with world.holding("perdure.effect"):
            await world.client.start(kind, "a", Booking())
            await world.until(lambda: pending(world, kind, "perdure.write"), "its worker has no answer")
        assert await world.ended(kind, "a") == "done"
    assert world.counterparty.accepted == {f"{kind}/a/do-{kind}": 1}


@ONCE
async def test_an_attempt_whose_worker_is_stopped_before_the_call_uses_up_no_retry(world: World, kind: str) -> None:
    worker = await world.spawn(APP)
    async with world.holding("perdure.effect"):
        await world.client.start(kind, "a", Booking())
        await world.held_up()
        worker.send(signal.SIGTERM)
        await world.until(lambda: "perdure.worker: stopping" in worker.text(), "the worker stopping")
    assert await worker.gone() == 0
    async with world.worker(app):
        assert await world.ended(kind, "a") == "done"
    assert world.counterparty.accepted == {f"{kind}/a/do-{kind}": 1}


async def test_a_save_costs_no_turn_in_the_line_of_a_limit(world: World) -> None:
    await rate(world, "0")
    async with world.worker(app):
        await world.client.start("saving", "a", Booking())
        await world.until(lambda: pending(world, "saving", "do-saved"), "it waits for its turn")
        await world.handle("saving", "a").signal("hear")
        await world.until(
            partial(world.db.fetchval, "select true from perdure.transition where why = 'saved'"), "saved"
        )
        await rate(world, "--as-declared")
        assert await world.ended("saving", "a") == "done"
    assert await ordered(world, "saving", "do-saved") == 1
    assert (await world.states("saving", "a"))[-2:] == ["doing", "done"]


async def test_repeats_that_are_no_longer_dropped_are_not_made_after_a_worker_was_away(world: World) -> None:
    world.counterparty.replies = [ACCEPTED_UNSAID]
    async with world.worker(app):
        await world.client.start("deduped", "a", Booking())
        await world.until(lambda: recorded(world, "status = 'in_doubt'"), "in doubt")
    await world.until(lambda: recorded(world, OVER), "the window is over")
    async with world.worker(app):
        await world.parked("deduped")
    assert world.counterparty.seen("do") == 1


async def test_repeats_that_are_no_longer_dropped_are_not_made_after_they_had_to_wait_for_their_turn(
    world: World,
) -> None:
    world.counterparty.replies = [ACCEPTED_UNSAID]
    world.counterparty.before_replying.shut()
    async with world.worker(app):
        await world.client.start("deduped-in-line", "a", Booking())
        await world.counterparty.saw("do")
        await rate(world, "0")
        world.counterparty.before_replying.open()
        await world.until(lambda: recorded(world, OVER), "the window is over")
        await rate(world, "--as-declared")
        await world.parked("deduped-in-line")
    assert world.counterparty.seen("do") == 1


OVER = f"clock_timestamp() > first_at + interval '{WITHIN} seconds'"


async def rate(world: World, wanted: str) -> None:
    """Set the rate of the line."""
    await perdure(world, "limit", "line", wanted, "--by", "ann", "--app", APP)


async def recorded(world: World, what: str) -> bool:
    """What is on record of the only effect."""
    return bool(await world.db.fetchval(f"select {what} from perdure.effect"))


async def pending(world: World, kind: str, activity: str) -> bool:
    """Whether an activity of that type is ordered and has not ended."""
    try:
        described: Any = await world.handle(kind, "a").describe()
    except RPCError:  # the relay has not started it yet
        return False
    return activity in [each.activity_type.name for each in described.raw_description.pending_activities]


async def ordered(world: World, kind: str, activity: str) -> int:
    """How many activities of that type were ordered."""
    history = await world.handle(kind, "a").fetch_history()
    scheduled = [each.activity_task_scheduled_event_attributes.activity_type.name for each in history.events]
    return scheduled.count(activity)
