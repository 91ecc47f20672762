"""Cancelling, by perdure's update and by Temporal's own request: what may have happened is settled first."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest

from perdure.contracts import EffectStatus
from perdure.errors import AlreadyFinished, NotNow
from tests.apps.contracts import Booking
from tests.apps.talking import Look, Plod, Ring, Slow, app
from tests.world import World

LOST = {"accept": True, "close": True}
Cancel = Callable[[World, str], Awaitable[object]]


async def _by_update(world: World, kind: str) -> object:
    return await world.client.cancel(app.lifecycle(kind), "a", by="ann", note="not wanted")


async def _by_temporal(world: World, kind: str) -> None:
    await world.handle(kind, "a").cancel()


both = pytest.mark.parametrize("cancel", [_by_update, _by_temporal], ids=["update", "temporal"])


@both
@pytest.mark.parametrize("cached", [1000, 0])
async def test_a_cancel_during_a_back_off_ends_it_at_once(world: World, cancel: Cancel, cached: int) -> None:
    world.counterparty.replies.append({"not_done": "busy"})
    async with world.worker(app, max_cached_workflows=cached):
        await world.client.start(Slow, "a", Booking())
        await world.until(lambda: _waits(world, "slow"), "the back-off")
        await cancel(world, "slow")
        assert await world.ended("slow", "a") == "cancelled"
        await world.handle("slow", "a").result()
    assert await world.states("slow", "a") == ["starting", "doing", "cancelled"]
    assert world.counterparty.seen("do") == 1


@both
async def test_a_cancel_while_it_waits_for_a_retry_ends_it(world: World, cancel: Cancel) -> None:
    world.counterparty.replies.append({"refused": "no such bell"})
    async with world.worker(app):
        await world.client.start(Ring, "a", Booking())
        await world.is_in("ring", "a", "failed")
        await cancel(world, "ring")
        assert await world.ended("ring", "a") == "cancelled"


@both
async def test_a_cancel_while_an_attempt_is_under_way_waits_for_its_outcome(world: World, cancel: Cancel) -> None:
    world.counterparty.before_replying.shut()
    async with world.worker(app):
        await world.client.start(Look, "a", Booking())
        await world.counterparty.has_accepted()
        await cancel(world, "look")
        world.counterparty.before_replying.open()
        assert await world.ended("look", "a") == "done"
    assert world.counterparty.seen("do") == 1


@both
async def test_a_cancelled_effect_that_falls_into_doubt_is_looked_up_and_not_called_again(
    world: World, cancel: Cancel
) -> None:
    world.counterparty.replies.append({"accept": False, "close": True})
    world.counterparty.before_accepting.shut()
    async with world.worker(app):
        await world.client.start(Look, "a", Booking())
        await world.counterparty.saw("do")
        await cancel(world, "look")
        world.counterparty.before_accepting.open()
        assert await world.ended("look", "a") == "cancelled"
    assert world.counterparty.seen("do") == 1
    assert world.counterparty.seen("ask") >= 1
    assert [each.status for each in (await world.client.status(Look, "a")).effects] == [EffectStatus.NOT_DONE]


@both
async def test_a_cancelled_effect_that_falls_into_doubt_still_waits_for_a_person(world: World, cancel: Cancel) -> None:
    world.counterparty.replies.append(LOST)
    world.counterparty.before_accepting.shut()
    async with world.worker(app):
        await world.client.start(Ring, "a", Booking())
        await world.counterparty.saw("do")
        await cancel(world, "ring")
        world.counterparty.before_accepting.open()
        await world.until(lambda: _parked(world), "the effect parked")
        await world.client.resolve(Ring, "a", EffectStatus.NOT_DONE, by="ann", note="silent")
        assert await world.ended("ring", "a") == "cancelled"
    assert world.counterparty.seen("do") == 1


async def test_temporals_cancel_of_a_parked_run_waits_until_the_doubt_is_resolved(world: World) -> None:
    world.counterparty.replies.append(LOST)
    async with world.worker(app):
        await world.client.start(Ring, "a", Booking())
        await world.until(lambda: _parked(world), "the effect parked")
        await world.handle("ring", "a").cancel()
        await world.client.resolve(Ring, "a", EffectStatus.DONE, by="ann", note="it rang", receipt={"number": 1})
        assert await world.ended("ring", "a") == "done"


async def test_temporals_cancel_before_the_first_task_ends_cancelled_on_record(world: World) -> None:
    handle = await world.temporal_client.start_workflow(
        Slow.run, Booking(), id=f"{world.scope}:slow/a", task_queue=world.config.queue
    )
    await handle.cancel()
    async with world.worker(app):
        await handle.result()
    assert (await world.client.status(Slow, "a")).state == "cancelled"
    assert world.counterparty.seen("do") == 0


async def test_a_lifecycle_without_a_state_for_it_goes_on(world: World) -> None:
    world.counterparty.before_accepting.shut()
    async with world.worker(app):
        await world.client.start(Plod, "a", Booking())
        await world.counterparty.saw("do")
        with pytest.raises(NotNow, match="plod declares no state with cancelled=True to end in"):
            await _by_update(world, "plod")
        await _by_temporal(world, "plod")
        world.counterparty.before_accepting.open()
        assert await world.ended("plod", "a") == "done"


async def test_a_cancel_that_comes_twice_or_too_late_is_refused_with_a_sentence(world: World) -> None:
    world.counterparty.before_accepting.shut()
    async with world.worker(app):
        await world.client.start(Look, "a", Booking())
        await world.counterparty.saw("do")
        await _by_update(world, "look")
        with pytest.raises(NotNow, match="ann has already requested that"):
            await _by_update(world, "look")
        world.counterparty.before_accepting.open()
        assert await world.ended("look", "a") == "done"
        with pytest.raises(AlreadyFinished, match="look/a: too late: already done"):
            await _by_update(world, "look")


async def _waits(world: World, kind: str) -> bool:
    status = await world.at_rest(kind)
    return status is not None and any(each.next_at and each.attempts for each in status.effects)


async def _parked(world: World) -> bool:
    status = await world.at_rest("ring")
    return status is not None and any(each.parked for each in status.effects)
