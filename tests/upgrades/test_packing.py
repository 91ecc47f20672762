"""`then=` is added and removed, and an effect is renamed, under lifecycles in which it is done already."""

from __future__ import annotations

import pytest

from perdure.contracts import EffectStatus
from tests.upgrades import packing
from tests.upgrades.edited_entity import EditedEntity, follows
from tests.upgrades.rows import row
from tests.world import World

PACKING = packing.NAME


@pytest.fixture
def entity(world: World) -> EditedEntity:
    return EditedEntity(world, PACKING)


async def _packed(entity: EditedEntity, kind: type) -> None:
    """Its effect is done, it is open, and that worker is gone."""
    async with entity.worker(kind):
        await entity.start()
        await entity.world.until(lambda: _is_packed(entity), "packed, and the run knows it")


async def _is_packed(entity: EditedEntity) -> bool:
    return (await entity.world.asked(PACKING)).state == "packed"


async def _parked(entity: EditedEntity, kind: type) -> None:
    """Its effect is in doubt, and that worker is gone."""
    async with entity.worker(kind):
        await entity.doubt()
        await entity.start()
        await entity.wants_a_person()


@row("`then` added to a `perform`")
async def test_then_may_be_added_where_it_takes_the_place_of_the_enter_that_followed(entity: EditedEntity) -> None:
    await _packed(entity, packing.Entering)
    async with entity.worker(packing.Then):
        await entity.go()
        assert await entity.end() == "done"
    assert await entity.world.states(PACKING, "a") == ["starting", "packing", "packed", "done"]
    assert await entity.failures() == 0


@row("`then` added to a `perform`", "`then` removed from a `perform`")
@pytest.mark.parametrize(
    ("before", "after"), [(packing.Entering, packing.Then), (packing.Then, packing.Entering)], ids=["added", "removed"]
)
async def test_a_run_in_doubt_continues_with_then_and_without(entity: EditedEntity, before: type, after: type) -> None:
    await _parked(entity, before)
    async with entity.worker(after):
        await entity.client.resolve(PACKING, "a", EffectStatus.NOT_DONE, by="ann", note="not there")
        await entity.world.is_in(PACKING, "a", "packed")
        await entity.go()
        assert await entity.end() == "done"
    assert entity.other.accepted.total() == 2  # one was resolved as not done
    assert await entity.failures() == 0


@row("`then` removed from a `perform`")
async def test_a_then_that_was_committed_can_be_removed_only_behind_patched(entity: EditedEntity) -> None:
    await _packed(entity, packing.Then)
    histories = await entity.histories()
    assert not await follows(packing.Entering, histories)
    async with entity.worker(packing.ThenNoMore):
        await entity.go()
        assert await entity.end() == "done"
    assert await entity.failures() == 0


@row("effect renamed without `aliases`")
async def test_a_run_that_is_past_an_effect_that_was_renamed_in_silence_can_not_be_followed(
    entity: EditedEntity,
) -> None:
    await _packed(entity, packing.Entering)
    histories = await entity.histories()
    assert await follows(packing.Renamed, histories)
    assert not await follows(packing.RenamedInSilence, histories)


@row("effect or look-up renamed", "effect renamed without `aliases`")
@pytest.mark.parametrize(
    ("after", "sent"), [(packing.Renamed, 0), (packing.RenamedInSilence, 1)], ids=["aliases", "in silence"]
)
async def test_a_new_run_sends_again_what_was_renamed_in_silence(entity: EditedEntity, after: type, sent: int) -> None:
    await _packed(entity, packing.Entering)
    await entity.world.handle(PACKING, "a").terminate()
    async with entity.worker(after):  # it starts: nothing is under way
        await entity.new_run("packed", packing.Entering)
        await entity.go()
        assert await entity.end() == "done"
    assert entity.other.accepted["packing/a/send-parcel"] == 1
    assert entity.other.accepted["packing/a/post-parcel"] == sent
