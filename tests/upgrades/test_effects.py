"""An effect's contract is edited while lifecycles are open: what was begun goes on, and nothing is sent twice."""

from __future__ import annotations

import pytest

from perdure.contracts import EffectStatus
from perdure.contracts.scopes import queue_of
from tests.upgrades import effects
from tests.upgrades.edited_entity import PARCEL, EditedEntity, follows, replays
from tests.upgrades.editions import edition
from tests.upgrades.rows import row
from tests.world import World


@pytest.fixture
def entity(world: World) -> EditedEntity:
    return EditedEntity(world)


async def _parked(entity: EditedEntity, kind: type) -> None:
    """Its effect is in doubt, and that worker is gone."""
    async with entity.worker(kind):
        await entity.start()
        await entity.doubt()
        await entity.go()
        await entity.wants_a_person()


@row("doubt policy")
@pytest.mark.parametrize("after", [effects.Repeating, effects.Deduping, effects.Asking])
async def test_a_policy_that_changes_under_a_parked_effect_leaves_it_parked_for_a_person(
    entity: EditedEntity, after: type
) -> None:
    await _parked(entity, effects.Escalating)
    async with entity.worker(after):
        status = await entity.world.asked(PARCEL)
        assert status.effects[0].parked
        await entity.client.resolve(PARCEL, "a", EffectStatus.DONE, by="ann", note="seen", receipt={"number": 7})
        assert await entity.end() == "done"
    assert entity.other.accepted.total() == 1
    assert await entity.failures() == 0


@row("doubt policy")
@pytest.mark.parametrize("after", [effects.Deduping, effects.Asking])
async def test_a_parked_effect_takes_the_new_policy_when_its_record_is_read_again(
    entity: EditedEntity, after: type
) -> None:
    entity.other.dedupe = True
    await _parked(entity, effects.Escalating)
    async with entity.worker(after):
        await entity.world.handle(PARCEL, "a").signal("perdure-wake", "parcel/a/send-parcel")
        assert await entity.end() == "done"
    assert entity.other.accepted.total() == 1
    assert await entity.failures() == 0


@row("doubt policy")
async def test_a_policy_that_no_longer_asks_takes_the_place_of_one_that_is_asking(entity: EditedEntity) -> None:
    async with entity.worker(effects.AskingLonger):
        await entity.start()
        entity.other.replies = [{"ok": True, "close": True}]
        await entity.go()
        await entity.other.saw("ask", count=2)
    async with entity.worker(effects.Escalating):
        assert "send-parcel is in doubt" in await entity.wants_a_person()
        await entity.client.resolve(PARCEL, "a", EffectStatus.NOT_DONE, by="ann", note="not there")
        assert await entity.end() == "done"
    assert entity.other.accepted.total() == 1
    assert await entity.failures() == 0


@row("`misses`")
@pytest.mark.parametrize(
    ("before", "after"), [(effects.AskingLonger, effects.Asking), (effects.Asking, effects.AskingLonger)]
)
async def test_misses_may_change_while_it_is_asked(entity: EditedEntity, before: type, after: type) -> None:
    async with entity.worker(before):
        await entity.start()
        if before is effects.Asking:
            entity.other.before_answering.shut()
        entity.other.replies = [{"ok": True, "close": True}]
        await entity.go()
        await entity.other.saw("ask")
    entity.other.before_answering.open()
    async with entity.worker(after):
        assert await entity.end() == "done"
    assert entity.other.accepted.total() == 1
    assert await entity.failures() == 0


@row("`visibility_delay`")
async def test_settle_counts_as_the_worker_says_that_asks(entity: EditedEntity) -> None:
    async with entity.worker(effects.AskingForAnHour):
        await entity.start()
        entity.other.replies = [{"ok": True, "close": True}]
        await entity.go()
        await entity.other.saw("ask", count=2)
    async with entity.worker(effects.Asking):
        assert await entity.end() == "done"
    assert entity.other.accepted.total() == 1
    assert await entity.failures() == 0


@row("`tries`")
async def test_a_look_up_that_can_not_answer_is_given_up_after_as_many_tries_as_the_worker_says_that_asks(
    entity: EditedEntity,
) -> None:
    entity.other.mute = True
    async with entity.worker(effects.AskingForEver):
        await entity.start()
        await entity.doubt()
        await entity.go()
        await entity.other.saw("ask", count=6)
        assert (await entity.client.status(PARCEL, "a")).attention is None
    async with entity.worker(effects.Asking):  # five tries
        assert "send-parcel is in doubt" in await entity.wants_a_person()
        await entity.client.resolve(PARCEL, "a", EffectStatus.DONE, by="ann", note="seen", receipt={"number": 7})
        assert await entity.end() == "done"
    assert entity.other.accepted.total() == 1
    assert await entity.failures() == 0


@row("effect or look-up renamed")
async def test_a_renamed_look_up_is_called_by_its_old_name_until_a_new_worker_has_answered(
    entity: EditedEntity,
) -> None:
    async with entity.worker(effects.AskingLonger):
        await entity.start()
        entity.other.replies = [{"ok": True, "close": True}]
        await entity.go()
        await entity.other.saw("ask", count=2)
    asked = entity.other.seen("ask")
    async with entity.worker(effects.AskingUnderAnotherName):
        assert await entity.end() == "done"
    assert asked <= len(await entity.calls("find-parcel")) <= asked + 1
    assert len(await entity.calls("seek-parcel")) >= 2
    assert entity.other.accepted.total() == 1
    assert await entity.failures() == 0


@row("`task_queue`")
async def test_the_next_attempt_is_made_by_workers_of_the_new_task_queue(entity: EditedEntity) -> None:
    entity.other.replies = [{"not_done": "busy"}] * 1000
    async with entity.worker(effects.Escalating):
        await entity.start()
        await entity.go()
        await entity.other.saw("do", count=2)
    async with (
        entity.worker(effects.Elsewhere),
        entity.worker(effects.Elsewhere, task_queue=effects.ELSEWHERE, relay=False),
    ):
        entity.other.replies = []
        assert await entity.end() == "done"
    queues = await entity.queues("send-parcel")
    assert queues[-1] == queue_of(effects.ELSEWHERE, entity.world.scope)
    assert set(queues[:-1]) >= {entity.world.config.queue}
    assert entity.other.accepted.total() == 1
    assert await entity.failures() == 0


@row("`task_queue`", "`limit`")
@pytest.mark.parametrize(
    ("before", "after", "queue"),
    [
        (effects.AskingSeldomInLine, effects.AskingSeldom, "perdure:{}"),
        (effects.AskingSeldom, effects.AskingSeldomInLine, "perdure:{}.account"),
    ],
)
async def test_the_next_look_up_waits_in_the_task_queue_that_workers_serve_now(
    entity: EditedEntity, before: type, after: type, queue: str
) -> None:
    entity.other.mute = True
    async with entity.worker(before):
        await entity.start()
        await entity.doubt()
        await entity.go()
        await entity.other.saw("ask")
        await entity.world.until(lambda: _is_answered(entity), "the answer on record")
    entity.other.mute = False
    async with entity.worker(after):
        assert await entity.end() == "done"
    assert (await entity.queues("find-parcel"))[1:] == [queue.format(entity.world.scope)]
    assert entity.other.accepted.total() == 1
    assert await entity.failures() == 0


async def _is_answered(entity: EditedEntity) -> bool:
    about = await entity.world.handle(PARCEL, "a").describe()
    return not about.raw_description.pending_activities


@row("activity → inline", "inline → activity")
@pytest.mark.parametrize(
    ("before", "after", "way"),
    [(effects.Escalating, effects.Inline, "activity"), (effects.Inline, effects.Escalating, "inline")],
)
async def test_a_run_goes_on_calling_an_effect_the_way_it_began_with(
    entity: EditedEntity, before: type, after: type, way: str
) -> None:
    entity.other.replies = [{"refused": "no"}]
    async with entity.worker(before):
        await entity.start()
        await entity.go()
        await entity.world.is_in(PARCEL, "a", "failed")
    async with entity.worker(after):
        await entity.client.retry(PARCEL, "a", by="ann", note="now")
        assert await entity.end() == "done"
        assert await entity.calls("send-parcel") == [way, way]
        await entity.start(entity_id="b")
        await entity.go("b")
        assert await entity.end("b") == "done"
        assert await entity.calls("send-parcel") == [way, way, *({"activity", "inline"} - {way})]
    assert await entity.failures() == 0


@row(
    "`RetryPolicy`: pauses",
    "`maximum_attempts`",
    "`timeout`",
    "`heartbeat_timeout`",
    "`schedule_to_start_timeout`",
    "`limit`",
)
@pytest.mark.parametrize("after", [effects.GivingUp, effects.InOtherTimes, effects.Limited])
async def test_pauses_time_outs_and_the_most_attempts_may_change(entity: EditedEntity, after: type) -> None:
    entity.other.replies = [{"not_done": "busy"}] * 6
    async with entity.worker(effects.Escalating):
        await entity.start()
        await entity.go()
        await entity.other.saw("do", count=4)
    async with entity.worker(after):
        if after is effects.GivingUp:
            await entity.world.is_in(PARCEL, "a", "failed")
            await entity.client.retry(PARCEL, "a", by="ann", note="now")
        else:
            assert await entity.end() == "done"
    assert await entity.failures() == 0


@row("`limit`")
@pytest.mark.parametrize(
    ("before", "after"), [(effects.Limited, effects.InOtherTimes), (effects.Escalating, effects.Limited)]
)
async def test_a_limit_that_is_added_or_removed_withdraws_no_other_attempt_of_a_past_cancel(
    entity: EditedEntity, before: type, after: type
) -> None:
    entity.other.before_replying.shut()
    async with entity.worker(before):
        await entity.start()
        await entity.go()
        await entity.other.saw("do")
        await entity.client.cancel(PARCEL, "a", by="ann")
        await entity.world.until_delivered(PARCEL, "a")
        entity.other.before_replying.open()
        assert await entity.end() == "done"
    assert await follows(after, await entity.histories())


@row("effect or look-up renamed")
async def test_a_renamed_effect_that_says_so_keeps_its_key_and_its_record(entity: EditedEntity) -> None:
    await _parked(entity, effects.Escalating)
    async with entity.worker(effects.Renamed):

        async def renamed() -> bool:  # a task of the old worker may be under way, and lost
            [effect] = (await entity.world.asked(PARCEL)).effects
            return (effect.effect, effect.key) == ("post-parcel", "parcel/a/send-parcel")

        await entity.world.until(renamed, "its new name and its old key")
        await entity.client.resolve(
            PARCEL, "a", EffectStatus.NOT_DONE, by="ann", note="not there", effect="post-parcel"
        )
        assert await entity.end() == "done"
        assert await entity.calls("post-parcel") == []
        await entity.start(entity_id="b")
        await entity.go("b")
        assert await entity.end("b") == "done"
        assert await entity.calls("post-parcel") == ["activity"]
    assert set(entity.other.accepted) == {"parcel/a/send-parcel", "parcel/b/send-parcel"}
    assert await entity.failures() == 0


@row("effect renamed without `aliases`")
async def test_a_renamed_effect_that_does_not_say_so_keeps_the_worker_from_starting(entity: EditedEntity) -> None:
    await _parked(entity, effects.Escalating)
    why = await entity.refused(effects.RenamedInSilence)
    assert "an attempt of 'send-parcel' is under way or in doubt" in why
    assert "aliases=('send-parcel',)" in why
    async with entity.worker(effects.Escalating):
        await entity.client.resolve(PARCEL, "a", EffectStatus.DONE, by="ann", note="seen", receipt={"number": 7})
        assert await entity.end() == "done"
    assert entity.other.accepted.total() == 1


async def test_a_doubt_about_an_effect_that_only_newer_code_declares_waits_for_that_code(entity: EditedEntity) -> None:
    async with entity.worker(effects.Escalating):
        await entity.start()
        await entity.world.db.execute(  # by a workflow task of the newer code that was lost
            "insert into perdure.effect (key, lifecycle, id, generation, effect, token, status, digest, first_at, "
            "attempt_at, deadline) values ('parcel/a/send-note', 'parcel', 'a', 0, 'send-note', 't', 'in_doubt', '', "
            "now(), now(), now())"
        )
        await entity.go()
        why = await entity.wants_a_person()
        assert why == "the effect of parcel/a/send-note can't be read: this code does not declare it"
    async with entity.worker(effects.WithAnother):
        await entity.looks_again()
        await entity.wants_nobody()
        await entity.go()  # the new run has no snapshot of the first one
        assert "send-note is in doubt" in await entity.wants_a_person()
        await entity.client.resolve(
            PARCEL, "a", EffectStatus.DONE, effect="send-note", by="ann", note="seen", receipt={"number": 7}
        )
        assert await entity.end() == "done"
    assert entity.other.accepted.total() == 1
    assert await entity.failures() == 0
    await replays(edition(effects.WithAnother), await entity.histories(), entity.world)


async def test_a_cancelled_import_of_an_effect_that_only_newer_code_declares_waits_for_that_code(
    entity: EditedEntity,
) -> None:
    async with entity.worker(effects.Escalating):
        async with entity.world.db.transaction():
            await entity.world.db.execute(
                "select perdure.import_row('parcel', 'a', '{}', effect => 'send-note', "
                "effect_key => 'parcel/a/send-note')"
            )
            await entity.world.db.execute("select perdure.cancel('parcel', 'a', 'ann', 'not wanted')")
        await entity.wants("the effect of parcel/a/send-note can't be read: this code does not declare it")
    async with entity.worker(effects.WithAnother):
        await entity.looks_again()
        await entity.wants("send-note is in doubt: imported while processing")
        await entity.client.resolve(PARCEL, "a", EffectStatus.ABANDONED, effect="send-note", by="ann", note="seen")
        assert await entity.end() == "cancelled"
    assert entity.other.accepted.total() == 0
    assert await entity.failures() == 0
    await replays(edition(effects.WithAnother), await entity.histories(), entity.world)
