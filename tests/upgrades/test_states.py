"""States, and what `run` does, are edited while lifecycles are open."""

from __future__ import annotations

import pytest

from perdure.contracts import EffectStatus
from tests.upgrades import effects, states
from tests.upgrades.ground import PARCEL, Ground
from tests.upgrades.rows import row
from tests.world import World


@pytest.fixture
def ground(world: World) -> Ground:
    return Ground(world)


async def _parked(ground: Ground) -> None:
    async with ground.worker(effects.Escalating):
        await _in_doubt(ground)


async def _in_doubt(ground: Ground) -> None:
    await ground.start()
    await ground.doubt()
    await ground.go()
    await ground.wants_a_person()


@row("state added, entered further on")
async def test_a_state_that_is_added_is_entered_by_those_that_are_not_past_it(ground: Ground) -> None:
    await _parked(ground)
    async with ground.worker(states.OneMore):
        await ground.client.resolve(PARCEL, "a", EffectStatus.DONE, by="ann", note="seen", receipt={"number": 7})
        assert await ground.end() == "done"
    assert await ground.world.states(PARCEL, "a") == ["starting", "doing", "doing", "doing", "checked", "done"]
    assert await ground.failures() == 0


@row("state removed, nobody in it")
async def test_a_state_that_was_removed_is_no_matter_where_nobody_is_in_it(ground: Ground) -> None:
    async with ground.worker(states.OneMore):
        await ground.start()
    async with ground.worker(effects.Escalating):
        await ground.go()
        assert await ground.end() == "done"
    assert await ground.failures() == 0


@row("state removed, somebody in it")
async def test_a_state_that_was_removed_keeps_the_worker_from_starting_while_somebody_is_in_it(
    ground: Ground,
) -> None:
    await _parked(ground)
    why = await ground.refused(states.RenamedInSilence)
    assert why.startswith("parcel: open ones are in the state 'doing', which it does not declare")
    assert "state(..., aliases=('doing',))" in why


@row("state renamed")
async def test_a_renamed_state_that_says_so_is_the_one_they_are_in(ground: Ground) -> None:
    await _parked(ground)
    async with ground.worker(states.Renamed):
        assert (await ground.world.asked(PARCEL)).state == "sending"
        await ground.client.resolve(PARCEL, "a", EffectStatus.NOT_DONE, by="ann", note="not there")
        assert await ground.end() == "done"
    assert await ground.world.states(PARCEL, "a") == ["starting", "doing", "doing", "sending", "done"]
    assert ground.other.accepted.total() == 2  # one was resolved as not done
    assert await ground.failures() == 0


@row("state renamed")
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
    assert await world.states("walk", "a") == ["starting", "doing", "done"]
    assert await ground.failures() == 0


@row("`within`", "`mirror` added")
async def test_within_and_the_mirrors_column_count_from_the_next_write_on(ground: Ground) -> None:
    await ground.world.db.execute("insert into errand (id) values ('a')")
    await _parked(ground)
    async with ground.worker(states.Shown):
        assert await ground.world.db.fetchval("select state from errand") == "pending"
        ground.other.replies = [{"refused": "no"}]
        await ground.client.resolve(PARCEL, "a", EffectStatus.NOT_DONE, by="ann", note="not there")
        await ground.world.is_in(PARCEL, "a", "failed")
        shows = "select state = 'failed' from errand"
        await ground.world.until(lambda: ground.world.db.fetchval(shows), "the column shows it")
        assert await ground.world.db.fetchval("select stuck_at is not null from perdure.entity")
    assert await ground.failures() == 0


@row("`mirror` changed")
async def test_another_column_shows_the_state_from_the_next_write_on_and_the_old_one_keeps_what_it_showed(
    ground: Ground,
) -> None:
    await ground.world.db.execute("alter table errand add column shown text")
    await ground.world.db.execute("insert into errand (id) values ('a')")
    async with ground.worker(states.Shown):
        await _in_doubt(ground)
        await ground.world.until(
            lambda: ground.world.db.fetchval("select state = 'doing' from errand"), "doing is shown"
        )
    async with ground.worker(states.ShownElsewhere):
        assert await ground.world.db.fetchval("select shown from errand") is None
        await ground.client.resolve(PARCEL, "a", EffectStatus.NOT_DONE, by="ann", note="not there")
        assert await ground.end() == "done"
        await ground.world.until(lambda: ground.world.db.fetchval("select shown = 'done' from errand"), "done is shown")
    assert await ground.world.db.fetchval("select state from errand") == "doing"
    assert await ground.failures() == 0


@row("state removed, somebody in it")
async def test_a_run_that_begins_in_a_state_that_is_gone_stands_still_until_the_code_says_which_one_it_is(
    world: World,
) -> None:
    """While workers are replaced, an entity can come into the old state after the new worker has started."""
    ground = Ground(world, "walk")
    await ground.client.start("walk", "a", {})
    await world.db.execute("delete from perdure.outbox")
    async with ground.worker(states.WalkRenamedInSilence):
        await ground.new_run("doing", states.Walk)
        what = await ground.wants_a_person()
        assert what.startswith("the state can't be read: WalkRenamedInSilence: 'doing' is not one of its states")
    async with ground.worker(states.WalkRenamed):
        assert (await world.asked("walk")).attention is not None
        await ground.client.retry("walk", "a", by="ann", note="try")
        await ground.wants_nobody()
        await world.handle("walk", "a").signal("tell", "go")
        assert await ground.end() == "done"
    assert await ground.failures() == 0
