"""Calls of `run` are inserted, removed and put in another order while lifecycles are open."""

from __future__ import annotations

import pytest

from tests.upgrades import calls, effects
from tests.upgrades.edited_entity import PARCEL, EditedEntity, follows
from tests.upgrades.rows import row
from tests.world import World


@pytest.fixture
def entity(world: World) -> EditedEntity:
    return EditedEntity(world)


async def _failed(entity: EditedEntity, kind: type) -> None:
    """It waits for a retry, past all calls that come first, and that worker is gone."""
    async with entity.worker(kind):
        announced = [{"ok": True, "accept": True}] if kind is calls.Inserted else []
        entity.other.replies_to = {"a": [*announced, {"refused": "no"}]}
        await entity.start()
        await entity.go()
        await entity.world.is_in(PARCEL, "a", "failed")


@row("a call inserted")
async def test_a_call_that_is_inserted_by_patched_is_made_by_those_that_are_not_past_it(entity: EditedEntity) -> None:
    await _failed(entity, effects.Escalating)
    async with entity.worker(calls.Patched):
        await entity.client.retry(PARCEL, "a", by="ann", note="now")
        assert await entity.end() == "done"
        assert await entity.calls("announce-parcel") == []
        await entity.start(entity_id="b")
        await entity.go("b")
        assert await entity.end("b") == "done"
        assert await entity.calls("announce-parcel") == ["activity"]
    assert await entity.failures() == 0


@row("a call inserted")
async def test_a_call_that_is_inserted_without_it_stops_those_that_are_past_it_until_other_code_comes(
    entity: EditedEntity,
) -> None:
    await _failed(entity, effects.Escalating)
    async with entity.worker(calls.Inserted):
        handle = entity.world.handle(PARCEL, "a")
        await handle.signal("perdure-wake", "nothing")
        await entity.world.until(entity.failures, "a workflow task that fails")
    assert entity.other.seen("do") == 1
    async with entity.worker(calls.Patched):
        await entity.client.retry(PARCEL, "a", by="ann", note="now")
        assert await entity.end() == "done"
    assert entity.other.accepted.total() == 1


@row("a call inserted")
async def test_every_kind_of_call_counts(entity: EditedEntity) -> None:
    await _failed(entity, effects.Escalating)
    histories = await entity.histories()
    inserted = [calls.Inserted, calls.EnterInserted, calls.WaitInserted, calls.SaveInserted, calls.SleepInserted]
    assert [await follows(kind, histories) for kind in inserted] == [False] * 5
    assert await follows(calls.Patched, histories)


@row("a call removed", "order of calls changed")
async def test_a_call_can_be_removed_or_moved_only_behind_patched(
    entity: EditedEntity,
) -> None:
    await _failed(entity, calls.Inserted)
    histories = await entity.histories()
    assert [await follows(kind, histories) for kind in (calls.Removed, calls.Swapped)] == [False, False]
    for kind in (calls.RemovedByPatch, calls.SwappedByPatch):
        assert await follows(kind, histories)


@row("a call removed", "order of calls changed")
@pytest.mark.parametrize(
    ("after", "announced"), [(calls.RemovedByPatch, 0), (calls.SwappedByPatch, 1)], ids=["removed", "last"]
)
async def test_behind_patched_the_old_order_ends_with_those_that_began_with_it(
    entity: EditedEntity, after: type, announced: int
) -> None:
    await _failed(entity, calls.Inserted)
    async with entity.worker(after):
        await entity.start(entity_id="b")
        await entity.go("b")
        assert await entity.end("b") == "done"
    assert entity.other.accepted["parcel/b/announce-parcel"] == announced
    assert await entity.failures() == 0
