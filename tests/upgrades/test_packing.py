"""`then=` is added and removed, and an effect is renamed, under lifecycles in which it is done already."""

from __future__ import annotations

import pytest

from perdure.contracts import EffectStatus
from tests.upgrades import packing
from tests.upgrades.ground import Ground, follows
from tests.upgrades.rows import row
from tests.world import World

PACKING = packing.NAME


@pytest.fixture
def ground(world: World) -> Ground:
    return Ground(world, PACKING)


async def _packed(ground: Ground, kind: type) -> None:
    """Its effect is done, it is open, and that worker is gone."""
    async with ground.worker(kind):
        await ground.start()
        await ground.world.until(lambda: _is_packed(ground), "packed, and the run knows it")


async def _is_packed(ground: Ground) -> bool:
    return (await ground.world.asked(PACKING)).state == "packed"


async def _parked(ground: Ground, kind: type) -> None:
    """Its effect is in doubt, and that worker is gone."""
    async with ground.worker(kind):
        await ground.doubt()
        await ground.start()
        await ground.wants_a_person()


@row("`then` added to a `perform`")
async def test_then_may_be_added_where_it_takes_the_place_of_the_enter_that_followed(ground: Ground) -> None:
    await _packed(ground, packing.Entering)
    async with ground.worker(packing.Then):
        await ground.go()
        assert await ground.end() == "done"
    assert await ground.world.states(PACKING, "a") == ["starting", "packing", "packed", "done"]
    assert await ground.failures() == 0


@row("`then` added to a `perform`", "`then` removed from a `perform`")
@pytest.mark.parametrize(
    ("before", "after"), [(packing.Entering, packing.Then), (packing.Then, packing.Entering)], ids=["added", "removed"]
)
async def test_what_is_in_doubt_goes_on_with_then_and_without(ground: Ground, before: type, after: type) -> None:
    await _parked(ground, before)
    async with ground.worker(after):
        await ground.client.resolve(PACKING, "a", EffectStatus.NOT_DONE, by="ann", note="not there")
        await ground.world.is_in(PACKING, "a", "packed")
        await ground.go()
        assert await ground.end() == "done"
    assert ground.other.accepted.total() == 2  # one was resolved as not done
    assert await ground.failures() == 0


@row("`then` removed from a `perform`")
async def test_where_then_was_kept_it_can_not_be_removed_but_behind_patched(ground: Ground) -> None:
    await _packed(ground, packing.Then)
    histories = await ground.histories()
    assert not await follows(packing.Entering, histories)
    async with ground.worker(packing.ThenNoMore):
        await ground.go()
        assert await ground.end() == "done"
    assert await ground.failures() == 0


@row("effect renamed without `aliases`")
async def test_a_run_that_is_past_an_effect_that_was_renamed_in_silence_can_not_be_followed(ground: Ground) -> None:
    await _packed(ground, packing.Entering)
    histories = await ground.histories()
    assert await follows(packing.Renamed, histories)
    assert not await follows(packing.RenamedInSilence, histories)


@row("effect or look-up renamed", "effect renamed without `aliases`")
@pytest.mark.parametrize(
    ("after", "sent"), [(packing.Renamed, 0), (packing.RenamedInSilence, 1)], ids=["aliases", "in silence"]
)
async def test_a_new_run_sends_again_what_was_renamed_in_silence(ground: Ground, after: type, sent: int) -> None:
    await _packed(ground, packing.Entering)
    await ground.world.handle(PACKING, "a").terminate()
    async with ground.worker(after):  # it starts: nothing is under way
        await ground.new_run("packed", packing.Entering)
        await ground.go()
        assert await ground.end() == "done"
    assert ground.other.accepted["packing/a/send-parcel"] == 1
    assert ground.other.accepted["packing/a/post-parcel"] == sent
