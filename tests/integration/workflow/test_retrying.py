"""`retry_now` and `send_again` wake a run that waits, and are refused by one that does not."""

from __future__ import annotations

import pytest

from perdure.errors import NoSuchEntity, NotNow
from tests.apps.contracts import Booking
from tests.apps.talking import Look, LookInline, Ring, Slow, app
from tests.world import World

BUSY = {"not_done": "busy"}
REFUSED = {"refused": "no such bell"}


@pytest.mark.parametrize("cached", [1000, 0])
async def test_a_retry_cuts_a_back_off_of_an_hour_short(world: World, cached: int) -> None:
    world.counterparty.replies.append(BUSY)
    async with world.worker(app, max_cached_workflows=cached):
        await world.client.start(Slow, "a", Booking())
        await world.until(lambda: _waits(world, "slow"), "the back-off")
        assert await world.client.retry(Slow, "a", by="ann") == "goes on from doing"
        assert await world.ended("slow", "a") == "done"
    assert world.counterparty.accepted == {"slow/a/do-slow": 1}
    assert await world.states("slow", "a") == ["starting", "doing", "done"]


@pytest.mark.parametrize("cached", [1000, 0])
async def test_a_retry_after_a_refusal_goes_with_a_new_key(world: World, cached: int) -> None:
    world.counterparty.replies += [REFUSED, REFUSED]
    async with world.worker(app, max_cached_workflows=cached):
        await world.client.start(Ring, "a", Booking())
        for _ in range(2):
            await world.until(lambda: _waits_for_retry(world), "it waits for somebody")
            assert await world.client.retry(Ring, "a", by="ann") == "goes on from failed"
        assert await world.ended("ring", "a") == "done"
    assert [each["key"] for each in world.counterparty.requests] == [
        "ring/a/do-ring",
        "ring/a/do-ring~1",
        "ring/a/do-ring~2",
    ]
    assert await world.states("ring", "a") == ["starting", *["doing", "failed"] * 2, "doing", "done"]


async def test_send_again_after_two_refusals_needs_no_name(world: World) -> None:
    world.counterparty.replies += [REFUSED, REFUSED]
    async with world.worker(app):
        await world.client.start(Ring, "a", Booking())
        await world.until(lambda: _waits_for_retry(world), "it waits for somebody")
        await world.client.retry(Ring, "a", by="ann")
        await world.counterparty.saw("do", "~1")
        await world.until(lambda: _waits_for_retry(world), "it waits again")
        assert await world.client.send_again(Ring, "a", by="ann", note="now") == "do-ring goes anew"
        assert await world.ended("ring", "a") == "done"
    assert world.counterparty.accepted == {"ring/a/do-ring~2": 1}


@pytest.mark.parametrize("kind", [Look, LookInline], ids=["regular", "inline"])
async def test_a_retry_while_an_attempt_is_under_way_is_refused(world: World, kind: type[Look]) -> None:
    name = "look" if kind is Look else "look-inline"
    world.counterparty.before_accepting.shut()
    async with world.worker(app):
        await world.client.start(kind, "a", Booking())
        await world.counterparty.saw("do")
        if kind is Look:
            with pytest.raises(NotNow, match="nothing waits for a retry in state 'doing'"):
                await world.client.retry(kind, "a", by="ann")
        world.counterparty.before_accepting.open()
        assert await world.ended(name, "a") == "done"
    assert world.counterparty.seen("do") == 1


async def test_a_retry_of_an_unknown_entity_names_it(world: World) -> None:
    with pytest.raises(NoSuchEntity, match="there is no ring/b: it was never started"):
        await world.client.retry(Ring, "b", by="ann")


async def test_a_retry_before_the_delivery_is_refused_with_the_reason(world: World) -> None:
    await world.client.start(Ring, "a", Booking())
    with pytest.raises(NotNow, match="ring/a waits to be delivered to Temporal: try again in a moment"):
        await world.client.retry(Ring, "a", by="ann")


async def _waits(world: World, kind: str) -> bool:
    status = await world.at_rest(kind)
    return status is not None and any(each.next_at and each.attempts for each in status.effects)


async def _waits_for_retry(world: World) -> bool:
    status = await world.at_rest("ring")
    return status is not None and status.waits_for_retry
