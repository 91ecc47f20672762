"""States, and what `run` does, are edited while lifecycles are open."""

from __future__ import annotations

from contextlib import suppress

import pytest
from temporalio.api.enums.v1 import EventType
from temporalio.service import RPCError

from perdure._services.indexing import Indexing
from perdure._wire.indexed import STATE
from perdure.contracts import EffectStatus
from tests.command import perdure
from tests.upgrades import effects, states
from tests.upgrades.edited_entity import PARCEL, EditedEntity
from tests.upgrades.rows import row
from tests.world import World


@pytest.fixture
def entity(world: World) -> EditedEntity:
    return EditedEntity(world)


async def _parked(entity: EditedEntity) -> None:
    async with entity.worker(effects.Escalating):
        await _in_doubt(entity)


async def _search_attributes(world: World, requested: str) -> None:
    """Wait until the server knows the search attributes."""
    indexing = Indexing(world.temporal_client, world.config.model_copy(update={"search_attributes": requested}))

    async def known() -> bool:
        with suppress(RPCError):
            await indexing.once()
        return indexing.known

    await world.until(known, "the server knows the search attributes")


async def _in_doubt(entity: EditedEntity) -> None:
    await entity.start()
    await entity.doubt()
    await entity.go()
    await entity.wants_a_person()


@row("state added, entered further on")
async def test_a_state_that_is_added_is_entered_by_those_that_are_not_past_it(entity: EditedEntity) -> None:
    await _parked(entity)
    async with entity.worker(states.OneMore):
        await entity.client.resolve(PARCEL, "a", EffectStatus.DONE, by="ann", note="seen", receipt={"number": 7})
        assert await entity.end() == "done"
    assert await entity.world.states(PARCEL, "a") == ["starting", "doing", "doing", "doing", "checked", "done"]
    assert await entity.failures() == 0


@row("state removed, nobody in it")
async def test_a_state_that_was_removed_is_no_matter_where_nobody_is_in_it(entity: EditedEntity) -> None:
    async with entity.worker(states.OneMore):
        await entity.start()
    async with entity.worker(effects.Escalating):
        await entity.go()
        assert await entity.end() == "done"
    assert await entity.failures() == 0


@row("state removed, somebody in it")
async def test_a_state_that_was_removed_keeps_the_worker_from_starting_while_somebody_is_in_it(
    entity: EditedEntity,
) -> None:
    await _parked(entity)
    why = await entity.refused(states.RenamedInSilence)
    assert why.startswith("parcel: open ones are in the state 'doing', which it does not declare")
    assert "state(..., aliases=('doing',))" in why


@row("state renamed")
async def test_a_renamed_state_that_says_so_is_the_one_they_are_in(entity: EditedEntity) -> None:
    await _parked(entity)
    async with entity.worker(states.Renamed):
        assert (await entity.world.asked(PARCEL)).state == "sending"
        await entity.client.resolve(PARCEL, "a", EffectStatus.NOT_DONE, by="ann", note="not there")
        assert await entity.end() == "done"
    assert await entity.world.states(PARCEL, "a") == ["starting", "doing", "doing", "sending", "done"]
    assert entity.other.accepted.total() == 2  # one was resolved as not done
    assert await entity.failures() == 0


@row("state renamed")
async def test_a_renamed_state_is_the_one_that_a_later_run_began_in(world: World) -> None:
    entity = EditedEntity(world, "walk")
    handle = world.handle("walk", "a")
    async with entity.worker(states.Walk):
        await entity.start()
        await world.is_in("walk", "a", "doing")
        await handle.signal("tell", "renew")

        async def renewed() -> bool:
            return len(await entity.histories()) == 2

        await world.until(renewed, "a new run")
        assert (await world.asked("walk")).state == "doing"
    async with entity.worker(states.WalkRenamed):
        assert (await world.asked("walk")).state == "sending"
        await handle.signal("tell", "go")
        assert await entity.end() == "done"
    assert await world.states("walk", "a") == ["starting", "doing", "done"]
    assert await entity.failures() == 0


@row("lifecycle renamed", "lifecycle removed")
async def test_an_open_one_whose_name_no_worker_has_fails_until_a_worker_has_it_again(entity: EditedEntity) -> None:
    async with entity.worker(states.OneMore):
        await entity.start()
    async with entity.worker(states.Walk):  # it has another name
        await entity.go()
        await entity.world.until(entity.failures, "its task fails")
        assert (await entity.client.status(PARCEL, "a")).attention is None
    async with entity.worker(states.OneMore):
        assert await entity.end() == "done"


@row("`within`", "`mirror` added")
async def test_within_and_the_mirrors_column_count_from_the_next_write_on(entity: EditedEntity) -> None:
    await entity.world.db.execute("insert into booking (id) values ('a')")
    await _parked(entity)
    async with entity.worker(states.Shown):
        assert await entity.world.db.fetchval("select state from booking") == "pending"
        entity.other.replies = [{"refused": "no"}]
        await entity.client.resolve(PARCEL, "a", EffectStatus.NOT_DONE, by="ann", note="not there")
        await entity.world.is_in(PARCEL, "a", "failed")
        shows = "select state = 'failed' from booking"
        await entity.world.until(lambda: entity.world.db.fetchval(shows), "the column shows it")
        assert await entity.world.db.fetchval("select stuck_at is not null from perdure.entity")
    assert await entity.failures() == 0


@row("`mirror` changed")
async def test_another_column_shows_the_state_from_the_next_write_on_and_the_old_one_keeps_what_it_showed(
    entity: EditedEntity,
) -> None:
    await entity.world.db.execute("alter table booking add column shown text")
    await entity.world.db.execute("insert into booking (id) values ('a')")
    async with entity.worker(states.Shown):
        await _in_doubt(entity)
        await entity.world.until(
            lambda: entity.world.db.fetchval("select state = 'doing' from booking"), "doing is shown"
        )
    async with entity.worker(states.ShownElsewhere):
        assert await entity.world.db.fetchval("select shown from booking") is None
        await entity.client.resolve(PARCEL, "a", EffectStatus.NOT_DONE, by="ann", note="not there")
        assert await entity.end() == "done"
        await entity.world.until(
            lambda: entity.world.db.fetchval("select shown = 'done' from booking"), "done is shown"
        )
    assert await entity.world.db.fetchval("select state from booking") == "doing"
    assert await entity.failures() == 0


@row("`mirror` removed")
async def test_a_column_is_shown_also_after_a_start_of_a_worker_without_it_until_a_grant_of_its_app(
    entity: EditedEntity,
) -> None:
    world, app = entity.world, "tests.upgrades.apps:before"
    await world.db.execute("insert into booking (id) values ('a')")
    async with entity.worker(states.Shown):
        async with entity.worker(effects.Escalating):
            pass
        await entity.start()
        await entity.go()
        assert await entity.end() == "done"
        await world.until(lambda: world.db.fetchval("select state = 'done' from booking"), "done is shown")
    role = await world.db.fetchval("select current_user")
    assert (await perdure(world, "grant", role, "--as", "column", "--app", app)).exit_code == 0
    assert not await world.db.fetch("select from perdure.app_column")


@row("state removed, somebody in it")
async def test_a_run_that_begins_in_a_state_that_is_gone_stands_still_until_the_code_says_which_one_it_is(
    world: World,
) -> None:
    """While workers are replaced, an entity can come into the old state after the new worker has started."""
    entity = EditedEntity(world, "walk")
    await entity.client.start("walk", "a", {})
    await world.db.execute("delete from perdure.outbox")
    async with entity.worker(states.WalkRenamedInSilence):
        await entity.new_run("doing", states.Walk)
        what = await entity.wants_a_person()
        assert what.startswith("the state can't be read: WalkRenamedInSilence: 'doing' is not one of its states")
        assert (await world.asked("walk")).attention == what
    async with entity.worker(states.WalkRenamed):
        await entity.looks_again()
        await entity.wants_nobody()
        await world.handle("walk", "a").signal("tell", "go")
        assert await entity.end() == "done"
    assert await entity.failures() == 0


@row("state renamed")
async def test_temporals_lists_show_the_new_name_of_the_state_in_which_a_run_continues_from_the_record(
    entity: EditedEntity,
) -> None:
    world = entity.world
    await _search_attributes(world, "state")
    async with entity.worker(effects.Escalating, search_attributes="state"):
        await _in_doubt(entity)
    run = world.handle(PARCEL, "a")
    await run.terminate()
    async with entity.worker(states.Renamed, search_attributes="state"):
        version = await world.db.fetchval("select version from perdure.ident")
        assert await world.db.fetchval("select perdure.start_again($1, 'a', 0, $2, 'ann', 'lost')", PARCEL, version)
        listed = f"WorkflowId = '{run.id}' AND ExecutionStatus = 'Running'"

        async def shown() -> str | None:
            runs = [each async for each in world.temporal_client.list_workflows(listed)]
            return runs[0].typed_search_attributes.get(STATE) if runs else None

        assert await world.until(shown, "the run in Temporal's lists") == "sending"


async def test_whether_a_state_needs_a_person_can_be_edited_while_runs_show_it_in_temporals_lists(
    entity: EditedEntity,
) -> None:
    await _search_attributes(entity.world, "attention")
    entity.other.replies_to = {"a": [{"refused": "no"}]}
    async with entity.worker(effects.Escalating):
        await entity.start()
        await entity.go()
        await entity.world.is_in(PARCEL, "a", "failed")
    events = [event for history in await entity.histories() for event in history.events]
    assert EventType.EVENT_TYPE_UPSERT_WORKFLOW_SEARCH_ATTRIBUTES in {event.event_type for event in events}
    async with entity.worker(states.Unattended):
        await entity.client.retry(PARCEL, "a", by="ann", note="now")
        assert await entity.end() == "done"
    assert await entity.failures() == 0
