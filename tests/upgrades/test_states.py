"""States, and what `run` does, are edited while lifecycles are open."""

from __future__ import annotations

import pytest

from perdure import Status
from tests.upgrades import effects, states
from tests.upgrades.ground import PARCEL, Ground
from tests.world import World


@pytest.fixture
def ground(world: World) -> Ground:
    return Ground(world)


async def _parked(ground: Ground) -> None:
    async with ground.worker(effects.Escalating):
        await ground.start()
        await ground.doubt()
        await ground.go()
        await ground.wants_a_person()


async def _failed(ground: Ground) -> None:
    async with ground.worker(effects.Escalating):
        ground.other.replies = [{"refused": "no"}]
        await ground.start()
        await ground.go()
        await ground.world.is_in(PARCEL, "a", "failed")


async def test_a_state_that_is_added_is_entered_by_those_that_are_not_past_it(ground: Ground) -> None:
    await _parked(ground)
    async with ground.worker(states.OneMore):
        await ground.client.resolve(PARCEL, "a", Status.DONE, by="ann", note="seen", receipt={"number": 7})
        assert await ground.end() == "done"
    assert await ground.world.states(PARCEL, "a") == ["pending", "doing", "doing", "doing", "checked", "done"]
    assert await ground.failures() == 0


async def test_a_state_that_was_removed_is_no_matter_where_nobody_is_in_it(ground: Ground) -> None:
    async with ground.worker(states.OneMore):
        await ground.start()
    async with ground.worker(effects.Escalating):
        await ground.go()
        assert await ground.end() == "done"
    assert await ground.failures() == 0


async def test_a_state_that_was_removed_keeps_the_worker_from_starting_while_somebody_is_in_it(
    ground: Ground,
) -> None:
    await _parked(ground)
    why = await ground.refused(states.RenamedInSilence)
    assert why.startswith("parcel: open ones are in the state 'doing', which it does not declare")
    assert "state(..., formerly=('doing',))" in why


async def test_a_renamed_state_that_says_so_is_the_one_they_are_in(ground: Ground) -> None:
    await _parked(ground)
    async with ground.worker(states.Renamed):
        assert (await ground.world.asked(PARCEL)).state == "sending"
        await ground.client.resolve(PARCEL, "a", Status.NOT_DONE, by="ann", note="not there")
        assert await ground.end() == "done"
    assert await ground.world.states(PARCEL, "a") == ["pending", "doing", "doing", "sending", "done"]
    assert ground.other.accepted.total() == 2  # one was resolved as not done
    assert await ground.failures() == 0


async def test_a_renamed_state_is_the_one_that_a_later_run_began_in(world: World) -> None:
    ground = Ground(world, "walk")
    handle = world.handle("walk", "a")
    async with ground.worker(states.Walk):
        await ground.start()
        await world.is_in("walk", "a", "doing")
        await handle.signal("tell", "renew")

        async def renewed() -> bool:
            return len(await ground.histories()) == 2

        await world.until(renewed, "a new run")
        assert (await world.asked("walk")).state == "doing"
    async with ground.worker(states.WalkRenamed):
        assert (await world.asked("walk")).state == "sending"
        await handle.signal("tell", "go")
        assert await ground.end() == "done"
    assert await world.states("walk", "a") == ["pending", "doing", "done"]
    assert await ground.failures() == 0


async def test_within_and_the_mirrors_column_count_from_the_next_write_on(ground: Ground) -> None:
    await ground.world.db.execute("insert into errand (id) values ('a')")
    await _parked(ground)
    async with ground.worker(states.Shown):
        assert await ground.world.db.fetchval("select state from errand") == "pending"
        ground.other.replies = [{"refused": "no"}]
        await ground.client.resolve(PARCEL, "a", Status.NOT_DONE, by="ann", note="not there")
        await ground.world.is_in(PARCEL, "a", "failed")
        assert await ground.world.db.fetchval("select state from errand") == "failed"
        assert await ground.world.db.fetchval("select stuck_at is not null from perdure.entity")
    assert await ground.failures() == 0


async def test_a_call_that_is_inserted_by_patched_is_made_by_those_that_are_not_past_it(ground: Ground) -> None:
    await _failed(ground)
    async with ground.worker(states.Patched):
        await ground.client.retry(PARCEL, "a", by="ann", note="now")
        assert await ground.end() == "done"
        assert await ground.calls("announce-parcel") == []
        await ground.start(entity_id="b")
        await ground.go("b")
        assert await ground.end("b") == "done"
        assert await ground.calls("announce-parcel") == ["activity"]
    assert await ground.failures() == 0


async def test_a_call_that_is_inserted_without_it_stops_those_that_are_past_it_until_other_code_comes(
    ground: Ground,
) -> None:
    await _failed(ground)
    async with ground.worker(states.Inserted):
        handle = ground.world.handle(PARCEL, "a")
        await handle.signal("perdure-wake", "nothing")
        await ground.world.until(ground.failures, "a workflow task that fails")
    assert ground.other.seen("do") == 1
    async with ground.worker(states.Patched):
        await ground.client.retry(PARCEL, "a", by="ann", note="now")
        assert await ground.end() == "done"
    assert ground.other.accepted.total() == 1
