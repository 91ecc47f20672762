"""Calls of `run` are inserted, removed and put in another order while lifecycles are open."""

from __future__ import annotations

import pytest

from tests.upgrades import calls, effects
from tests.upgrades.ground import PARCEL, Ground, follows
from tests.upgrades.rows import row
from tests.world import World


@pytest.fixture
def ground(world: World) -> Ground:
    return Ground(world)


async def _failed(ground: Ground, kind: type) -> None:
    """It waits for a retry, past all calls that come first, and that worker is gone."""
    async with ground.worker(kind):
        announced = [{"ok": True, "accept": True}] if kind is calls.Inserted else []
        ground.other.replies_to = {"a": [*announced, {"refused": "no"}]}
        await ground.start()
        await ground.go()
        await ground.world.is_in(PARCEL, "a", "failed")


@row("a call inserted")
async def test_a_call_that_is_inserted_by_patched_is_made_by_those_that_are_not_past_it(ground: Ground) -> None:
    await _failed(ground, effects.Escalating)
    async with ground.worker(calls.Patched):
        await ground.client.retry(PARCEL, "a", by="ann", note="now")
        assert await ground.end() == "done"
        assert await ground.calls("announce-parcel") == []
        await ground.start(entity_id="b")
        await ground.go("b")
        assert await ground.end("b") == "done"
        assert await ground.calls("announce-parcel") == ["activity"]
    assert await ground.failures() == 0


@row("a call inserted")
async def test_a_call_that_is_inserted_without_it_stops_those_that_are_past_it_until_other_code_comes(
    ground: Ground,
) -> None:
    await _failed(ground, effects.Escalating)
    async with ground.worker(calls.Inserted):
        handle = ground.world.handle(PARCEL, "a")
        await handle.signal("perdure-wake", "nothing")
        await ground.world.until(ground.failures, "a workflow task that fails")
    assert ground.other.seen("do") == 1
    async with ground.worker(calls.Patched):
        await ground.client.retry(PARCEL, "a", by="ann", note="now")
        assert await ground.end() == "done"
    assert ground.other.accepted.total() == 1


@row("a call inserted")
async def test_every_kind_of_call_counts(ground: Ground) -> None:
    await _failed(ground, effects.Escalating)
    histories = await ground.histories()
    inserted = [calls.Inserted, calls.EnterInserted, calls.WaitInserted, calls.SaveInserted, calls.SleepInserted]
    assert [await follows(kind, histories) for kind in inserted] == [False] * 5
    assert await follows(calls.Patched, histories)


@row("a call removed", "order of calls changed")
async def test_what_is_past_a_call_that_is_removed_or_comes_later_can_be_followed_only_behind_patched(
    ground: Ground,
) -> None:
    await _failed(ground, calls.Inserted)
    histories = await ground.histories()
    assert [await follows(kind, histories) for kind in (calls.Removed, calls.Swapped)] == [False, False]
    for kind in (calls.RemovedByPatch, calls.SwappedByPatch):
        assert await follows(kind, histories)


@row("a call removed", "order of calls changed")
@pytest.mark.parametrize(
    ("after", "announced"), [(calls.RemovedByPatch, 0), (calls.SwappedByPatch, 1)], ids=["removed", "last"]
)
async def test_behind_patched_the_old_order_ends_with_those_that_began_with_it(
    ground: Ground, after: type, announced: int
) -> None:
    await _failed(ground, calls.Inserted)
    async with ground.worker(after):
        await ground.start(entity_id="b")
        await ground.go("b")
        assert await ground.end("b") == "done"
    assert ground.other.accepted["parcel/b/announce-parcel"] == announced
    assert await ground.failures() == 0
