"""An effect's contract is edited while lifecycles are open: what was begun goes on, and nothing is sent twice."""

from __future__ import annotations

import pytest

from perdure.contracts import EffectStatus
from perdure.contracts.scopes import queue_of
from tests.upgrades import effects
from tests.upgrades.ground import PARCEL, Ground
from tests.upgrades.rows import row
from tests.world import World


@pytest.fixture
def ground(world: World) -> Ground:
    return Ground(world)


async def _parked(ground: Ground, kind: type) -> None:
    """Its effect is in doubt, and that worker is gone."""
    async with ground.worker(kind):
        await ground.start()
        await ground.doubt()
        await ground.go()
        await ground.wants_a_person()


@row("doubt policy")
@pytest.mark.parametrize("after", [effects.Repeating, effects.Deduping, effects.Asking])
async def test_a_policy_that_changes_under_a_parked_effect_leaves_it_parked_for_a_person(
    ground: Ground, after: type
) -> None:
    await _parked(ground, effects.Escalating)
    async with ground.worker(after):
        status = await ground.world.asked(PARCEL)
        assert status.effects[0].parked
        await ground.client.resolve(PARCEL, "a", EffectStatus.DONE, by="ann", note="seen", receipt={"number": 7})
        assert await ground.end() == "done"
    assert ground.other.accepted.total() == 1
    assert await ground.failures() == 0


@row("doubt policy")
@pytest.mark.parametrize("after", [effects.Deduping, effects.Asking])
async def test_a_parked_effect_takes_the_new_policy_when_its_record_is_read_again(ground: Ground, after: type) -> None:
    ground.other.dedupe = True
    await _parked(ground, effects.Escalating)
    async with ground.worker(after):
        await ground.world.handle(PARCEL, "a").signal("perdure-wake", "parcel/a/send-parcel")
        assert await ground.end() == "done"
    assert ground.other.accepted.total() == 1
    assert await ground.failures() == 0


@row("doubt policy")
async def test_a_policy_that_no_longer_asks_takes_the_place_of_one_that_is_asking(ground: Ground) -> None:
    async with ground.worker(effects.AskingLonger):
        await ground.start()
        ground.other.replies = [{"ok": True, "close": True}]
        await ground.go()
        await ground.other.saw("ask", count=2)
    async with ground.worker(effects.Escalating):
        assert "send-parcel is in doubt" in await ground.wants_a_person()
        await ground.client.resolve(PARCEL, "a", EffectStatus.NOT_DONE, by="ann", note="not there")
        assert await ground.end() == "done"
    assert ground.other.accepted.total() == 1
    assert await ground.failures() == 0


@row("`misses`")
@pytest.mark.parametrize(
    ("before", "after"), [(effects.AskingLonger, effects.Asking), (effects.Asking, effects.AskingLonger)]
)
async def test_misses_may_change_while_it_is_asked(ground: Ground, before: type, after: type) -> None:
    async with ground.worker(before):
        await ground.start()
        if before is effects.Asking:
            ground.other.before_answering.shut()
        ground.other.replies = [{"ok": True, "close": True}]
        await ground.go()
        await ground.other.saw("ask")
    ground.other.before_answering.open()
    async with ground.worker(after):
        assert await ground.end() == "done"
    assert ground.other.accepted.total() == 1
    assert await ground.failures() == 0


@row("`visibility_delay`")
async def test_settle_counts_as_the_worker_says_that_asks(ground: Ground) -> None:
    async with ground.worker(effects.AskingForAnHour):
        await ground.start()
        ground.other.replies = [{"ok": True, "close": True}]
        await ground.go()
        await ground.other.saw("ask", count=2)
    async with ground.worker(effects.Asking):
        assert await ground.end() == "done"
    assert ground.other.accepted.total() == 1
    assert await ground.failures() == 0


@row("`tries`")
async def test_a_look_up_that_can_not_answer_is_given_up_after_as_many_tries_as_the_worker_says_that_asks(
    ground: Ground,
) -> None:
    ground.other.mute = True
    async with ground.worker(effects.AskingForEver):
        await ground.start()
        await ground.doubt()
        await ground.go()
        await ground.other.saw("ask", count=6)
        assert (await ground.client.status(PARCEL, "a")).attention is None
    async with ground.worker(effects.Asking):  # five tries
        assert "send-parcel is in doubt" in await ground.wants_a_person()
        await ground.client.resolve(PARCEL, "a", EffectStatus.DONE, by="ann", note="seen", receipt={"number": 7})
        assert await ground.end() == "done"
    assert ground.other.accepted.total() == 1
    assert await ground.failures() == 0


@row("effect or look-up renamed")
async def test_a_renamed_look_up_is_called_by_its_old_name_until_a_new_worker_has_answered(ground: Ground) -> None:
    async with ground.worker(effects.AskingLonger):
        await ground.start()
        ground.other.replies = [{"ok": True, "close": True}]
        await ground.go()
        await ground.other.saw("ask", count=2)
    asked = ground.other.seen("ask")
    async with ground.worker(effects.AskingUnderAnotherName):
        assert await ground.end() == "done"
    assert asked <= len(await ground.calls("find-parcel")) <= asked + 1
    assert len(await ground.calls("seek-parcel")) >= 2
    assert ground.other.accepted.total() == 1
    assert await ground.failures() == 0


@row("`task_queue`")
async def test_the_next_attempt_is_made_by_workers_of_the_new_task_queue(ground: Ground) -> None:
    ground.other.replies = [{"not_done": "busy"}] * 1000
    async with ground.worker(effects.Escalating):
        await ground.start()
        await ground.go()
        await ground.other.saw("do", count=2)
    async with (
        ground.worker(effects.Elsewhere),
        ground.worker(effects.Elsewhere, task_queue=effects.ELSEWHERE, relay=False),
    ):
        ground.other.replies = []
        assert await ground.end() == "done"
    queues = await ground.queues("send-parcel")
    assert queues[-1] == queue_of(effects.ELSEWHERE, ground.world.scope)
    assert set(queues[:-1]) >= {ground.world.config.queue}
    assert ground.other.accepted.total() == 1
    assert await ground.failures() == 0


@row("activity → inline", "inline → activity")
@pytest.mark.parametrize(
    ("before", "after", "way"),
    [(effects.Escalating, effects.Inline, "activity"), (effects.Inline, effects.Escalating, "inline")],
)
async def test_a_run_goes_on_calling_an_effect_the_way_it_began_with(
    ground: Ground, before: type, after: type, way: str
) -> None:
    ground.other.replies = [{"refused": "no"}]
    async with ground.worker(before):
        await ground.start()
        await ground.go()
        await ground.world.is_in(PARCEL, "a", "failed")
    async with ground.worker(after):
        await ground.client.retry(PARCEL, "a", by="ann", note="now")
        assert await ground.end() == "done"
        assert await ground.calls("send-parcel") == [way, way]
        await ground.start(entity_id="b")
        await ground.go("b")
        assert await ground.end("b") == "done"
        assert await ground.calls("send-parcel") == [way, way, *({"activity", "inline"} - {way})]
    assert await ground.failures() == 0


@row(
    "`RetryPolicy`: pauses",
    "`maximum_attempts`",
    "`timeout`",
    "`heartbeat_timeout`",
    "`schedule_to_start_timeout`",
    "`limit`",
)
@pytest.mark.parametrize("after", [effects.GivingUp, effects.InOtherTimes, effects.Limited])
async def test_pauses_time_outs_and_the_most_attempts_may_change(ground: Ground, after: type) -> None:
    ground.other.replies = [{"not_done": "busy"}] * 6
    async with ground.worker(effects.Escalating):
        await ground.start()
        await ground.go()
        await ground.other.saw("do", count=4)
    async with ground.worker(after):
        if after is effects.GivingUp:
            await ground.world.is_in(PARCEL, "a", "failed")
            await ground.client.retry(PARCEL, "a", by="ann", note="now")
        else:
            assert await ground.end() == "done"
    assert await ground.failures() == 0


@row("effect or look-up renamed")
async def test_a_renamed_effect_that_says_so_keeps_its_key_and_its_record(ground: Ground) -> None:
    await _parked(ground, effects.Escalating)
    async with ground.worker(effects.Renamed):
        status = await ground.world.asked(PARCEL)
        assert (status.effects[0].effect, status.effects[0].key) == ("post-parcel", "parcel/a/send-parcel")
        await ground.client.resolve(
            PARCEL, "a", EffectStatus.NOT_DONE, by="ann", note="not there", effect="post-parcel"
        )
        assert await ground.end() == "done"
        assert await ground.calls("post-parcel") == []
        await ground.start(entity_id="b")
        await ground.go("b")
        assert await ground.end("b") == "done"
        assert await ground.calls("post-parcel") == ["activity"]
    assert set(ground.other.accepted) == {"parcel/a/send-parcel", "parcel/b/send-parcel"}
    assert await ground.failures() == 0


@row("effect renamed without `aliases`")
async def test_a_renamed_effect_that_does_not_say_so_keeps_the_worker_from_starting(ground: Ground) -> None:
    await _parked(ground, effects.Escalating)
    why = await ground.refused(effects.RenamedInSilence)
    assert "an attempt of 'send-parcel' is under way or in doubt" in why
    assert "aliases=('send-parcel',)" in why
    async with ground.worker(effects.Escalating):
        await ground.client.resolve(PARCEL, "a", EffectStatus.DONE, by="ann", note="seen", receipt={"number": 7})
        assert await ground.end() == "done"
    assert ground.other.accepted.total() == 1
