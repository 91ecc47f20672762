"""After commits were lost, an earlier order without a record may have been carried out."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from perdure._store.memory import MemoryStore
from perdure._store.postgres import PostgresStore
from perdure._wire.writes import FenceOp, Gate, Store, Verdict
from perdure.contracts.outcomes import EffectStatus
from tests.integration.store.stores import PATIENCE, a_begin, a_fence, a_move, a_write, an_outcome
from tests.integration.store.test_store_conformance import either, in_memory, say

__all__ = ["either", "in_memory"]


def now() -> int:
    return int(time.time() * 1_000_000)


async def lose_records(store: Store) -> None:
    """Lose all of them, and begin an epoch."""
    if isinstance(store, PostgresStore):
        await store.pool.execute("delete from perdure.effect")
        await store.pool.execute("update perdure.database set epoch = $1", now())
    else:
        assert isinstance(store, MemoryStore)
        store.lose_records()


async def test_an_attempt_that_was_ordered_before_is_in_doubt_and_may_be_taken_over(either: Store) -> None:
    ordered = now()
    assert (await say(either, a_begin("a", 1, since=ordered, began=ordered))).verdict is Verdict.FRESH
    await lose_records(either)
    begun = time.monotonic()
    answer = await say(either, a_begin("a", 2, "t2", entering="doing", since=ordered, began=ordered))
    assert (answer.gate, answer.verdict, answer.state) == (Gate.OPEN, Verdict.STANDING, None)
    assert answer.effect is not None
    assert answer.effect.status is EffectStatus.IN_DOUBT
    assert "no record of it" in (answer.effect.why or "")
    assert answer.effect.record_lost
    in_flight = answer.effect.in_flight
    assert 20 - (time.monotonic() - begun) <= in_flight <= 20, "for as long as one that is begun now"
    after: dict[str, Any] = {"after": answer.effect.token, "since": ordered, "began": ordered}
    taken = await say(either, a_begin("a", now(), "t3", digest="what it really was", **after))
    assert taken.verdict is Verdict.FRESH, "nobody knows its input, so any fits"
    assert (await say(either, a_begin("a", now(), "t4", digest="another", **after))).verdict is Verdict.DIFFERENT


@pytest.mark.parametrize("final", [False, True])
async def test_a_run_of_another_entity_with_the_same_id_changes_nothing_after_a_restore(
    either: Store, final: bool
) -> None:
    """The restore lost its start, and the app gave the id again."""
    born = datetime(2030, 1, 1, 12, 0, 0, 123457, UTC)
    await say(either, a_move("a", 1, "doing", born=born))
    await lose_records(either)
    if final:
        assert (await say(either, a_move("a", 2, "done", final=True, born=born))).gate is Gate.OPEN
    other = born - timedelta(microseconds=1)
    for write in (
        a_move("a", now(), "error", born=other),
        a_begin("a", now()).model_copy(update={"born": other}),
        an_outcome("a", now(), EffectStatus.NOT_DONE).model_copy(update={"born": other}),
    ):
        answer = await say(either, write)
        assert (answer.gate, answer.verdict, answer.effect) == (Gate.OTHER_ENTITY, None, None)
    answer = await say(either, a_write("a", now(), None, a_fence(FenceOp.READ, "a"), born=born))
    assert (answer.state, answer.effect) == ("done" if final else "doing", None)
    assert answer.gate is (Gate.FINAL if final else Gate.OPEN)


async def test_a_row_that_a_run_writes_anew_has_the_time_of_its_start(either: Store) -> None:
    born = datetime(2030, 1, 1, 12, 0, 0, 123457, UTC)
    await lose_records(either)
    await say(either, a_move("a", 1, "doing", born=born))
    assert (await say(either, a_move("a", 2, "doing", born=born))).gate is Gate.OPEN
    await say(either, a_move("b", 1, "done", final=True, born=born))
    assert (await say(either, a_move("b", 1, "done", final=True, born=born))).gate is Gate.OPEN


async def test_it_is_in_doubt_since_it_was_ordered(either: Store) -> None:
    ordered = now() - 70_000_000
    await lose_records(either)
    answer = await say(either, a_begin("a", 1, since=ordered, began=ordered))
    assert answer.effect is not None
    assert answer.effect.in_doubt_for >= 70, "the other side may have forgotten it by now"
    again = await say(either, a_begin("a", 2, "t2", after=answer.effect.token, within=60, since=ordered, began=ordered))
    assert again.verdict is Verdict.OVER


@pytest.mark.parametrize("op", [FenceOp.LOST, FenceOp.READ, FenceOp.BAR])
async def test_a_lost_worker_whose_record_is_lost_too_is_a_doubt(either: Store, op: FenceOp) -> None:
    ordered = now()
    await lose_records(either)
    fence = a_fence(op, "a", since=ordered, began=ordered)
    answer = await either.write(a_write("a", 1, None, fence), patience=PATIENCE)
    assert answer.effect is not None
    assert answer.effect.status is EffectStatus.IN_DOUBT


@pytest.mark.parametrize("status", [EffectStatus.NOT_DONE, None], ids=["not done", "no record"])
@pytest.mark.parametrize("op", [FenceOp.LOST, FenceOp.READ, FenceOp.BAR, FenceOp.RESOLVE, FenceOp.OUTCOME])
async def test_a_run_after_the_end_of_its_entity_makes_no_doubt(
    either: Store, op: FenceOp, status: EffectStatus | None
) -> None:
    """The run before it knew of each effect, and nobody is there who could be asked."""
    ordered = now()
    if status is not None:
        await say(either, a_begin("a", 1, since=ordered, began=ordered))
        await say(either, an_outcome("a", 2, status))
    await lose_what_came_later(either)
    await say(either, a_move("a", 3, "done", final=True))
    said = {FenceOp.OUTCOME: EffectStatus.NOT_DONE, FenceOp.RESOLVE: EffectStatus.ABANDONED}.get(op)
    fence = a_fence(op, "a", "t2", since=ordered, began=ordered, status=said)
    answer = await say(either, a_write("a", 4, None, fence))
    assert answer.gate is Gate.FINAL
    assert answer.effect is None or answer.effect.status in {EffectStatus.NOT_DONE, EffectStatus.ABANDONED}


@pytest.mark.parametrize("status", [EffectStatus.IN_DOUBT, EffectStatus.DONE])
async def test_an_attempt_that_was_made_is_on_record_after_the_end_as_well(either: Store, status: EffectStatus) -> None:
    ordered = now()
    await lose_records(either)
    await say(either, a_move("a", 3, "done", final=True))
    answer = await say(either, an_outcome("a", 4, status, since=ordered, began=ordered))
    assert answer.effect is not None
    assert answer.effect.status is status


async def lose_what_came_later(store: Store) -> None:
    """Begin an epoch whose records are as old as those that are there."""
    if isinstance(store, PostgresStore):
        await store.pool.execute("update perdure.database set epoch = $1", now())
    else:
        assert isinstance(store, MemoryStore)
        store.epoch = now()


@pytest.mark.parametrize("op", [FenceOp.BEGIN, FenceOp.LOST, FenceOp.READ, FenceOp.BAR, FenceOp.RESOLVE])
async def test_an_effect_that_was_not_done_by_an_older_record_is_in_doubt_for_a_run_that_does_not_know_that_attempt(
    either: Store, op: FenceOp
) -> None:
    ordered = now()
    await say(either, a_begin("a", 1, since=ordered, began=ordered))
    await say(either, an_outcome("a", 2, EffectStatus.NOT_DONE))
    await lose_what_came_later(either)
    again = a_begin("a", 3, "t3", since=ordered, began=ordered)
    if op is not FenceOp.BEGIN:
        given = EffectStatus.NOT_DONE if op is FenceOp.RESOLVE else None
        again = a_write("a", 3, None, a_fence(op, "a", "", since=ordered, began=ordered, status=given))
    answer = await say(either, again)
    assert answer.effect is not None
    assert (answer.effect.status, answer.effect.attempts) == (EffectStatus.IN_DOUBT, 2)
    assert "no record of it" in (answer.effect.why or "")
    assert answer.effect.record_lost
    await say(either, an_outcome("a", 4, EffectStatus.NOT_DONE, since=ordered, began=ordered))
    assert await status(either) is EffectStatus.IN_DOUBT, "the attempt of before proves nothing"


@pytest.mark.parametrize("inline", [False, True])
async def test_an_effect_whose_newest_attempt_its_run_knows_is_tried_again_after_records_were_lost(
    either: Store, *, inline: bool
) -> None:
    """But not an inline one: a workflow task that was lost may have tried it again."""
    ordered = now()
    await say(either, a_begin("a", 1, since=ordered, began=ordered))
    await say(either, an_outcome("a", 2, EffectStatus.NOT_DONE))
    await lose_what_came_later(either)
    again = a_begin("a", 3, "t3", after="t1", since=ordered, began=ordered, inline=inline)
    assert (await say(either, again)).verdict is (Verdict.STANDING if inline else Verdict.FRESH)


@pytest.mark.parametrize("op", [FenceOp.BEGIN, FenceOp.READ, FenceOp.RESOLVE])
async def test_a_run_that_knows_an_attempt_only_from_an_older_record_takes_it_for_no_newest_one(
    either: Store, op: FenceOp
) -> None:
    ordered = now()
    if isinstance(either, PostgresStore):
        await either.pool.execute(
            "insert into perdure.entity (lifecycle, id, generation, state) values ('booking', 'a', 0, 'x')"
        )
    await say(either, a_begin("a", 1, since=ordered, began=ordered))
    await say(either, an_outcome("a", 2, EffectStatus.NOT_DONE))
    await lose_what_came_later(either)
    began = now()
    again = a_begin("a", 3, "t3", after="t1", since=ordered, began=began)
    if op is not FenceOp.BEGIN:
        given = EffectStatus.NOT_DONE if op is FenceOp.RESOLVE else None
        again = a_write("a", 3, None, a_fence(op, "a", "t1", since=ordered, began=began, status=given))
    assert (await say(either, again)).verdict is Verdict.STANDING
    assert await status(either) is EffectStatus.IN_DOUBT


@pytest.mark.parametrize("inline", [False, True])
async def test_a_doubt_of_a_lost_record_is_one_again_after_records_were_lost_again(
    either: Store, *, inline: bool
) -> None:
    """For an inline effect: a workflow task that was lost may have settled that doubt, and tried the effect again."""
    ordered = now()
    await lose_records(either)
    first = await say(either, a_begin("a", 1, since=ordered, began=ordered, inline=inline))
    assert first.effect is not None
    token: dict[str, Any] = {"since": ordered, "began": ordered, "inline": inline, "status": EffectStatus.NOT_DONE}
    missed = a_write("a", 2, None, a_fence(FenceOp.RESOLVE, "a", first.effect.token or "", **token))
    await lose_what_came_later(either)
    assert (await say(either, missed)).verdict is (Verdict.STANDING if inline else Verdict.STORED)
    assert await status(either) is (EffectStatus.IN_DOUBT if inline else EffectStatus.NOT_DONE)


async def test_an_outcome_that_is_on_record_again_after_records_were_lost_wakes_the_run(either: Store) -> None:
    ordered = now()
    await say(either, a_begin("a", 1, since=ordered, began=ordered))
    await lose_what_came_later(either)
    assert (await say(either, an_outcome("a", now(), EffectStatus.DONE))).verdict is Verdict.STORED
    if isinstance(either, PostgresStore):
        assert await either.pool.fetchval("select count(*) from perdure.outbox where kind = 'wake'") == 1


async def status(store: Store) -> EffectStatus | None:
    answer = await store.write(a_write("a", 9, None, a_fence(FenceOp.READ, "a")), patience=PATIENCE)
    return answer.effect.status if answer.effect else None


async def test_an_outcome_that_comes_after_its_record_was_lost_is_stored(either: Store) -> None:
    ordered = now()
    await say(either, a_begin("a", 1, since=ordered, began=ordered))
    await lose_records(either)
    answer = await say(either, an_outcome("a", 2, EffectStatus.DONE, receipt={"n": 1}, since=ordered, began=ordered))
    assert answer.verdict is Verdict.STORED
    assert answer.effect is not None
    assert answer.effect.receipt == {"n": 1}


async def test_what_was_first_ordered_after_that_goes_at_once(either: Store) -> None:
    began = now()
    await lose_records(either)
    assert (await say(either, a_begin("a", 1, since=now(), began=began))).verdict is Verdict.FRESH
    assert (await say(either, a_begin("b", 1))).verdict is Verdict.FRESH, "of an older worker, that does not say"


async def test_a_run_that_repeats_one_from_before_takes_nothing_for_untouched(either: Store) -> None:
    await say(either, a_write("a", 1))  # so the entity is there; its row of before
    if isinstance(either, PostgresStore):
        await either.pool.execute("update perdure.database set epoch = 0")
        await either.pool.execute(
            "insert into perdure.entity (lifecycle, id, generation, state) values ('booking', 'a', 0, 'x')"
        )
    await lose_records(either)
    assert (await say(either, a_begin("a", 2, since=now(), began=now()))).verdict is Verdict.STANDING


@pytest.fixture(autouse=True)
async def first_epoch(store: PostgresStore) -> None:
    """The database is shared by this module's tests."""
    await store.pool.execute("update perdure.database set epoch = 0")
