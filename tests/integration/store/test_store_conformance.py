"""Both stores give the same answers: what is rehearsed in memory happens in PostgreSQL."""

from __future__ import annotations

import asyncio
import random
import time
from datetime import UTC, datetime
from typing import Any

import pytest

from perdure._store.memory import MemoryStore
from perdure._store.postgres import PostgresStore
from perdure._wire.writes import Answer, FenceOp, Gate, Move, Store, Verdict, Write
from perdure.contracts.outcomes import EffectStatus
from tests.deadline import until
from tests.integration.store.stores import (
    PATIENCE,
    a_begin,
    a_fence,
    a_key,
    a_move,
    a_write,
    an_outcome,
    states,
)

SETTLED = (EffectStatus.DONE, EffectStatus.REFUSED, EffectStatus.ABANDONED)
LATER = (EffectStatus.NOT_DONE, EffectStatus.REFUSED, EffectStatus.ABANDONED, EffectStatus.IN_DOUBT)


def in_memory() -> MemoryStore:
    return MemoryStore(lambda: datetime.now(UTC))


@pytest.fixture(params=["memory", "postgres"])
def either(request: pytest.FixtureRequest, store: PostgresStore) -> Store:
    """One store, then the other."""
    return in_memory() if request.param == "memory" else store


async def say(store: Store, write: Write) -> Answer:
    return await store.write(write, patience=PATIENCE)


async def told(store: Store, op: FenceOp, token: str = "t1", **more: Any) -> Answer:
    return await say(store, a_write("a", 9, None, a_fence(op, "a", token, **more)))


async def stands(store: Store, status: EffectStatus, token: str = "t1", in_flight: float = 20.0) -> None:
    """Bring the effect of `a` into a status."""
    assert (await say(store, a_begin("a", 1, token, in_flight=in_flight))).verdict is Verdict.FRESH
    if status is not EffectStatus.ATTEMPTING:
        assert (await say(store, an_outcome("a", 1, status, token))).verdict is Verdict.STORED


async def test_an_entity_does_not_end_while_an_effect_stands_that_its_run_does_not_know_of(either: Store) -> None:
    await say(either, a_begin("a", 1))
    end = Move(state="cancelled", final=True, handled_doubts=[])
    answer = await say(either, a_write("a", 2, end))
    assert (answer.gate, answer.version) == (Gate.UNSETTLED, 0)
    assert {key: view.status for key, view in (answer.unsettled or {}).items()} == {a_key("a"): EffectStatus.ATTEMPTING}
    await say(either, an_outcome("a", 3, EffectStatus.NOT_DONE))
    answer = await say(either, a_write("a", 4, end))
    assert (answer.gate, answer.state, answer.unsettled) == (Gate.OPEN, "cancelled", None)


async def test_an_entity_ends_while_an_effect_is_in_doubt_that_its_author_was_told_of(either: Store) -> None:
    await stands(either, EffectStatus.IN_DOUBT)
    answer = await say(either, a_write("a", 2, Move(state="expired", final=True, handled_doubts=[a_key("a")])))
    assert (answer.gate, answer.state) == (Gate.OPEN, "expired")


async def test_an_end_that_was_ordered_before_a_newer_attempt_waits_for_it(either: Store) -> None:
    await stands(either, EffectStatus.NOT_DONE)
    assert (await say(either, a_begin("a", 3, "t3"))).verdict is Verdict.FRESH
    answer = await say(either, a_write("a", 2, Move(state="done", final=True, handled_doubts=[a_key("a")])))
    assert (answer.gate, list(answer.unsettled or {})) == (Gate.UNSETTLED, [a_key("a")])


async def test_an_end_that_was_ordered_before_a_newer_attempt_is_late_once_that_has_ended(either: Store) -> None:
    """A lost workflow task ordered the end; the next one performs the effect, which waits for its second attempt."""
    await say(either, a_begin("a", 3))
    await say(either, an_outcome("a", 3, EffectStatus.NOT_DONE))
    end = Move(state="expired", final=True, handled_doubts=[])
    answer = await say(either, a_write("a", 2, end))
    assert (answer.gate, answer.state, answer.version) == (Gate.LATE, None, 3)
    assert (await say(either, a_begin("a", 4, "t4"))).verdict is Verdict.FRESH
    await say(either, an_outcome("a", 4, EffectStatus.DONE, "t4"))
    assert (await say(either, a_write("a", 3, end))).gate is Gate.LATE
    answer = await say(either, a_write("a", 5, end))
    assert (answer.gate, answer.state) == (Gate.OPEN, "expired")


async def test_a_doubt_of_another_entity_keeps_none_from_its_end(either: Store) -> None:
    await say(either, a_begin("b", 1))
    await say(either, a_write("a", 1, Move(state="doing")))
    answer = await say(either, a_write("a", 2, Move(state="done", final=True, handled_doubts=[])))
    assert (answer.gate, answer.state) == (Gate.OPEN, "done")


async def test_an_outcome_is_on_record_although_the_end_that_follows_has_to_wait(either: Store) -> None:
    await say(either, a_begin("a", 1))
    await say(either, a_begin("a", 2, "t2", key=a_key("a", 1)))
    done = a_fence(FenceOp.OUTCOME, "a", status=EffectStatus.DONE)
    answer = await say(either, a_write("a", 3, Move(state="done", final=True, handled_doubts=[]), done))
    assert (answer.gate, answer.verdict, list(answer.unsettled or {})) == (
        Gate.UNSETTLED,
        Verdict.STORED,
        [a_key("a", 1)],
    )
    assert answer.effect is not None
    assert answer.effect.status is EffectStatus.DONE


async def test_a_newer_write_is_applied(either: Store) -> None:
    await say(either, a_move("a", 1, "doing"))
    answer = await say(either, a_move("a", 2, "error"))
    assert (answer.gate, answer.state, answer.version) == (Gate.OPEN, "error", 2)


async def test_the_same_write_again_is_open_and_changes_nothing(either: Store) -> None:
    first = await say(either, a_move("a", 1))
    assert await say(either, a_move("a", 1)) == first
    final = await say(either, a_move("a", 2, "done", final=True))
    assert await say(either, a_move("a", 2, "done", final=True)) == final
    if isinstance(either, PostgresStore):
        assert await states(either.pool, "a") == ["doing", "done"]
    elif isinstance(either, MemoryStore):
        assert [move.state for move in either.moves("booking", "a")] == ["doing", "done"]


async def test_an_older_write_is_late_and_learns_what_stands(either: Store) -> None:
    await say(either, a_move("a", 5, "doing"))
    answer = await say(either, a_move("a", 4, "error"))
    assert (answer.gate, answer.state, answer.version) == (Gate.LATE, "doing", 5)


async def test_another_state_of_the_same_version_is_late(either: Store) -> None:
    await say(either, a_move("a", 5, "doing"))
    answer = await say(either, a_move("a", 5, "error"))
    assert (answer.gate, answer.state) == (Gate.LATE, "doing")


@pytest.mark.parametrize("final", [True, False])
async def test_a_write_after_the_final_state_receives_that_state(either: Store, final: bool) -> None:
    await say(either, a_move("a", 5, "done", final=True))
    for version in (4, 5, 6):
        answer = await say(either, a_move("a", version, "error", final=final))
        assert (answer.gate, answer.state, answer.version) == (Gate.FINAL, "done", 5)


@pytest.mark.parametrize("round_", [0, 2])
async def test_a_write_of_another_round_is_refused(either: Store, round_: int) -> None:
    await say(either, a_move("a", 5, generation=1))
    answer = await say(either, a_move("a", 6, "error", generation=round_))
    assert (answer.gate, answer.state, answer.version) == (Gate.OTHER_GENERATION, "doing", 5)


async def test_a_first_attempt_is_fresh_and_enters_its_state(either: Store) -> None:
    begun = time.monotonic()
    answer = await say(either, a_begin("a", 1, entering="doing"))
    assert (answer.gate, answer.verdict, answer.state) == (Gate.OPEN, Verdict.FRESH, "doing")
    assert answer.effect is not None
    assert (answer.effect.status, answer.effect.token, answer.effect.attempts) == (EffectStatus.ATTEMPTING, "t1", 1)
    assert 20 - (time.monotonic() - begun) <= answer.effect.in_flight <= 20


@pytest.mark.parametrize("since", ["nothing", "lost", "late", "final"])
async def test_an_attempt_whose_reply_was_lost_is_mine(either: Store, since: str) -> None:
    begin = a_begin("a", 1, entering="doing")
    await say(either, begin)
    if since == "lost":
        await told(either, FenceOp.LOST, why="no heartbeat")
    elif since != "nothing":
        await say(either, a_move("a", 2, "error", final=since == "final"))
    again = await say(either, begin)
    assert again.verdict is Verdict.MINE
    assert again.effect is not None
    assert again.effect.attempts == 1


@pytest.mark.parametrize("status", SETTLED)
async def test_an_attempt_that_was_settled_is_mine_no_more(either: Store, status: EffectStatus) -> None:
    await stands(either, status)
    assert (await say(either, a_begin("a", 1))).verdict is Verdict.STANDING


@pytest.mark.parametrize("status", [*SETTLED, EffectStatus.ATTEMPTING, EffectStatus.IN_DOUBT])
async def test_a_record_that_stands_lets_no_other_attempt_go(either: Store, status: EffectStatus) -> None:
    await stands(either, status)
    answer = await say(either, a_begin("a", 2, "t2", entering="error"))
    assert (answer.gate, answer.verdict) == (Gate.OPEN, Verdict.STANDING)
    assert answer.effect is not None
    assert (answer.effect.status, answer.effect.token, answer.effect.attempts) == (status, "t1", 1)
    assert (answer.state, answer.version) == (None, 0), "the state is entered only where the attempt is fresh"


@pytest.mark.parametrize("status", [*SETTLED, EffectStatus.ATTEMPTING, EffectStatus.IN_DOUBT, EffectStatus.NOT_DONE])
async def test_other_input_bytes_never_go_under_the_same_key(either: Store, status: EffectStatus) -> None:
    await stands(either, status)
    answer = await say(either, a_begin("a", 2, "t2", after="t1", digest="d2"))
    assert answer.verdict is (Verdict.STANDING if status in SETTLED else Verdict.DIFFERENT)


@pytest.mark.parametrize("status", [EffectStatus.ATTEMPTING, EffectStatus.IN_DOUBT])
async def test_a_doubtful_attempt_is_taken_over_only_after_the_token_that_was_seen(
    either: Store, status: EffectStatus
) -> None:
    await stands(either, status)
    assert (await say(either, a_begin("a", 2, "t2", after="t0"))).verdict is Verdict.STANDING
    answer = await say(either, a_begin("a", 2, "t2", after="t1", entering="doing"))
    assert (answer.verdict, answer.state) == (Verdict.FRESH, "doing")
    assert answer.effect is not None
    assert (answer.effect.token, answer.effect.attempts) == ("t2", 2)
    assert (await say(either, a_begin("a", 3, "t3", after="t1"))).verdict is Verdict.STANDING


async def test_an_effect_that_certainly_did_not_happen_may_be_attempted_again(either: Store) -> None:
    await stands(either, EffectStatus.NOT_DONE)
    answer = await say(either, a_begin("a", 2, "t2"))
    assert answer.verdict is Verdict.FRESH
    assert answer.effect is not None
    assert (answer.effect.attempts, answer.effect.why) == (2, None)


@pytest.mark.parametrize("standing", ["final", "other round"])
async def test_no_attempt_begins_where_the_gate_is_shut(either: Store, standing: str) -> None:
    await say(either, a_move("a", 5, "done", final=standing == "final"))
    answer = await say(either, a_begin("a", 6, generation=1 if standing == "other round" else 0))
    assert answer.gate.value == standing.replace(" ", "_")
    assert (answer.verdict, answer.effect) == (None, None)


@pytest.mark.parametrize("entering", [None, "doing"])
async def test_a_newer_move_keeps_no_attempt_from_beginning(either: Store, entering: str | None) -> None:
    await say(either, a_move("a", 5, "error"))
    answer = await say(either, a_begin("a", 4, entering=entering))
    assert (answer.gate, answer.verdict) == (Gate.LATE, Verdict.FRESH)
    assert (answer.state, answer.version) == ("error", 5), "the mirror moves forward only"


@pytest.mark.parametrize("op", [FenceOp.LOST, FenceOp.BAR])
@pytest.mark.parametrize("status", [EffectStatus.NOT_DONE, EffectStatus.IN_DOUBT])
async def test_an_attempt_that_was_ordered_before_what_is_on_record_does_not_begin(
    either: Store, status: EffectStatus, op: FenceOp
) -> None:
    await stands(either, status)
    for version in (0, 1):
        assert (await say(either, a_begin("a", version, "t2", after="t1"))).verdict is Verdict.STANDING
    await told(either, op, why="no heartbeat")  # of version 9
    assert (await say(either, a_begin("a", 8, "t2", after="t1"))).verdict is Verdict.STANDING
    assert (await say(either, a_begin("a", 10, "t2", after="t1"))).verdict is Verdict.FRESH


@pytest.mark.parametrize("op", [FenceOp.LOST, FenceOp.BAR, FenceOp.OUTCOME])
async def test_an_attempt_without_a_record_that_was_given_up_does_not_begin_any_more(
    either: Store, op: FenceOp
) -> None:
    answer = await told(either, op, status=EffectStatus.NOT_DONE, why="no answer")
    assert answer.effect is not None
    assert (answer.verdict, answer.effect.status, answer.effect.attempts) == (
        Verdict.STANDING,
        EffectStatus.NOT_DONE,
        0,
    )
    late = await say(either, a_begin("a", 8, "t1"))
    assert (late.verdict, late.effect and late.effect.attempts) == (Verdict.STANDING, 0)
    fresh = await say(either, a_begin("a", 10, "t2", after="t1"))
    assert (fresh.verdict, fresh.effect and fresh.effect.attempts) == (Verdict.FRESH, 1)


async def test_an_attempt_without_an_answer_that_was_given_up_does_not_begin_after_an_earlier_one(
    either: Store,
) -> None:
    await stands(either, EffectStatus.NOT_DONE)
    given_up = await told(either, FenceOp.OUTCOME, "t2", status=EffectStatus.NOT_DONE, why="no answer")
    assert (given_up.verdict, given_up.effect and given_up.effect.token) == (Verdict.STANDING, "t1")
    assert (await say(either, a_begin("a", 8, "t2", after="t1"))).verdict is Verdict.STANDING
    assert (await say(either, a_begin("a", 10, "t3", after="t1"))).verdict is Verdict.FRESH


@pytest.mark.parametrize("status", [EffectStatus.ATTEMPTING, EffectStatus.IN_DOUBT])
async def test_a_doubtful_attempt_is_repeated_only_within_the_time_that_the_order_gives(
    either: Store, status: EffectStatus
) -> None:
    await stands(either, status)
    over = await say(either, a_begin("a", 2, "t2", after="t1", entering="doing", within=0.0))
    assert over.effect is not None
    assert (over.verdict, over.state, over.effect.status, over.effect.attempts) == (Verdict.OVER, None, status, 1)
    assert (await say(either, a_begin("a", 3, "t2", after="t1", within=60.0))).verdict is Verdict.FRESH
    # Counted from the first that is in doubt, which the second is not.
    await say(either, an_outcome("a", 3, EffectStatus.IN_DOUBT, "t2"))
    assert (await say(either, a_begin("a", 4, "t3", after="t2", within=0.0))).verdict is Verdict.OVER


async def test_the_time_for_a_repeat_begins_anew_where_nothing_is_in_doubt(either: Store) -> None:
    await stands(either, EffectStatus.NOT_DONE)
    answer = await say(either, a_begin("a", 2, "t2", after="t1", within=0.0))
    assert answer.effect is not None
    assert (answer.verdict, answer.effect.in_doubt_for < answer.effect.since_first) == (Verdict.FRESH, True)


@pytest.mark.parametrize("status", [EffectStatus.ATTEMPTING, EffectStatus.IN_DOUBT])
@pytest.mark.parametrize(
    ("said", "within", "in_flight", "becomes"),
    [
        (EffectStatus.NOT_DONE, None, 20.0, EffectStatus.IN_DOUBT),
        (EffectStatus.NOT_DONE, 60.0, 0.0, EffectStatus.IN_DOUBT),
        (EffectStatus.REFUSED, None, 0.0, EffectStatus.IN_DOUBT),
        (EffectStatus.REFUSED, 60.0, 20.0, EffectStatus.IN_DOUBT),  # the first may still arrive
        (EffectStatus.REFUSED, 60.0, 0.0, EffectStatus.REFUSED),
        (EffectStatus.DONE, None, 20.0, EffectStatus.DONE),
    ],
)
async def test_the_outcome_of_an_attempt_ends_no_doubt_about_an_earlier_one(
    either: Store,
    status: EffectStatus,
    said: EffectStatus,
    within: float | None,
    in_flight: float,
    becomes: EffectStatus,
) -> None:
    await stands(either, status, in_flight=in_flight)
    await say(either, a_begin("a", 2, "t2", after="t1", within=within))
    outcome = an_outcome("a", 2, said, "t2", within=within, why="busy")
    first, again = await say(either, outcome), await say(either, outcome)  # the reply to the first may be lost
    assert first.effect is not None
    assert again.effect is not None
    assert (first.effect.status, again.effect.status, again.effect.why) == (becomes, becomes, first.effect.why)
    assert first.effect.why == ("busy; an earlier attempt is in doubt" if becomes is EffectStatus.IN_DOUBT else "busy")


async def test_a_refusal_on_record_late_answers_no_attempt_that_was_under_way_when_it_came(either: Store) -> None:
    await stands(either, EffectStatus.IN_DOUBT, in_flight=2.0)
    begun = await say(either, a_begin("a", 2, "t2", after="t1", within=60.0, in_flight=2.0))
    assert begun.effect is not None
    assert begun.effect.in_flight > 0

    async def over() -> bool:
        seen = (await told(either, FenceOp.READ, "t2")).effect
        return seen is not None and seen.in_flight <= 0

    await until(over, "no attempt can be under way")
    answer = await say(either, an_outcome("a", 10, EffectStatus.REFUSED, "t2", within=60.0))
    assert answer.effect is not None
    assert answer.effect.status is EffectStatus.IN_DOUBT


@pytest.mark.parametrize("said", [EffectStatus.NOT_DONE, EffectStatus.ABANDONED, EffectStatus.DONE])
async def test_a_word_about_the_effect_ends_every_doubt(either: Store, said: EffectStatus) -> None:
    await stands(either, EffectStatus.IN_DOUBT)
    await say(either, a_begin("a", 2, "t2", after="t1"))
    answer = await told(either, FenceOp.RESOLVE, "t2", status=said, by="ann")
    assert (answer.verdict, answer.effect and answer.effect.status) == (Verdict.STORED, said)
    if said is EffectStatus.NOT_DONE:
        assert (await say(either, a_begin("a", 10, "t3", after="t2"))).verdict is Verdict.FRESH
        answer = await say(either, an_outcome("a", 10, EffectStatus.NOT_DONE, "t3"))
        assert answer.effect is not None
        assert answer.effect.status is EffectStatus.NOT_DONE


async def test_a_note_is_kept_for_the_current_token_only(either: Store) -> None:
    await stands(either, EffectStatus.ATTEMPTING)
    assert (await told(either, FenceOp.NOTE, "t0", lookup_hint={"id": 0})).verdict is Verdict.STANDING
    assert (await told(either, FenceOp.NOTE, lookup_hint={"id": 1, "none": None})).verdict is Verdict.STORED
    seen = (await told(either, FenceOp.READ)).effect
    assert seen is not None
    assert seen.lookup_hint == {"id": 1, "none": None}


@pytest.mark.parametrize("status", [*SETTLED, EffectStatus.ATTEMPTING, EffectStatus.IN_DOUBT, EffectStatus.NOT_DONE])
async def test_only_an_attempt_on_record_can_be_lost(either: Store, status: EffectStatus) -> None:
    await stands(either, status)
    answer = await told(either, FenceOp.LOST, "t9", why="no heartbeat")
    assert answer.verdict is Verdict.STANDING
    assert answer.effect is not None
    assert answer.effect.status is (EffectStatus.IN_DOUBT if status is EffectStatus.ATTEMPTING else status)


@pytest.mark.parametrize("status", [*SETTLED, EffectStatus.ATTEMPTING, EffectStatus.IN_DOUBT, EffectStatus.NOT_DONE])
async def test_a_bar_changes_no_status(either: Store, status: EffectStatus) -> None:
    await stands(either, status)
    answer = await told(either, FenceOp.BAR, "t9")
    assert (answer.verdict, answer.effect and answer.effect.status) == (Verdict.STANDING, status)


@pytest.mark.parametrize("op", [op for op in FenceOp if op not in (FenceOp.BEGIN, FenceOp.LOST, FenceOp.BAR)])
async def test_nothing_else_makes_a_record(either: Store, op: FenceOp) -> None:
    answer = await told(either, op, status=EffectStatus.DONE, receipt=1)
    assert (answer.verdict, answer.effect) == (Verdict.STANDING, None)


@pytest.mark.parametrize("op", [FenceOp.OUTCOME, FenceOp.RESOLVE])
@pytest.mark.parametrize("said", LATER)
async def test_a_word_other_than_done_needs_the_current_token(either: Store, op: FenceOp, said: EffectStatus) -> None:
    await stands(either, EffectStatus.NOT_DONE)
    await say(either, a_begin("a", 2, "t2", after="t1"))
    old = await told(either, op, "t1", status=said)
    assert old.effect is not None
    assert (old.verdict, old.effect.status) == (Verdict.STANDING, EffectStatus.ATTEMPTING)
    current = await told(either, op, "t2", status=said, why="so")
    assert current.effect is not None
    assert (current.verdict, current.effect.status, current.effect.why) == (Verdict.STORED, said, "so")


@pytest.mark.parametrize("status", [s for s in EffectStatus if s not in (EffectStatus.ABSENT, EffectStatus.DONE)])
async def test_a_late_done_always_wins(either: Store, status: EffectStatus) -> None:
    await stands(either, status)
    answer = await told(either, FenceOp.OUTCOME, "t0", status=EffectStatus.DONE, receipt={"queue_id": "4Q"})
    assert answer.effect is not None
    assert (answer.verdict, answer.effect.status) == (Verdict.STORED, EffectStatus.DONE)
    assert answer.effect.receipt == {"queue_id": "4Q"}


@pytest.mark.parametrize("said", [*LATER, EffectStatus.DONE])
async def test_nothing_changes_what_is_done(either: Store, said: EffectStatus) -> None:
    await stands(either, EffectStatus.ATTEMPTING)
    await told(either, FenceOp.OUTCOME, status=EffectStatus.DONE, receipt=1)
    answer = await told(either, FenceOp.OUTCOME, status=said, receipt=2)
    assert answer.effect is not None
    assert (answer.verdict, answer.effect.status, answer.effect.receipt) == (Verdict.STANDING, EffectStatus.DONE, 1)


async def test_an_outcome_is_stored_after_the_end_of_the_entity(either: Store) -> None:
    await stands(either, EffectStatus.ATTEMPTING)
    await say(either, a_move("a", 2, "expired", final=True))
    answer = await told(either, FenceOp.OUTCOME, status=EffectStatus.DONE, receipt=1)
    assert (answer.gate, answer.verdict, answer.state) == (Gate.FINAL, Verdict.STORED, "expired")


async def test_any_sequence_of_writes_gets_equal_answers_from_both(store: PostgresStore) -> None:
    await asyncio.gather(*(_same_answers(store, seed) for seed in range(400)))


async def _same_answers(store: PostgresStore, seed: int) -> None:
    draw, woken, told_so_far = random.Random(seed), list[str](), []
    memory = MemoryStore(lambda: datetime.now(UTC), on_late=woken.append)
    for _ in range(14):
        write = _any_write(draw, f"s{seed}")
        told_so_far.append(write.model_dump(mode="json", exclude_none=True))
        assert _comparable(await say(store, write)) == _comparable(await say(memory, write)), (seed, told_so_far)
    query = "select body->>'key' from perdure.outbox where kind = 'wake' and id = $1 order by seq"
    assert [row[0] for row in await store.pool.fetch(query, f"s{seed}")] == woken, (seed, told_so_far)


def _any_write(draw: random.Random, entity_id: str) -> Write:
    move = fence = None
    if draw.random() < 0.5:
        state = draw.choice(["doing", "doing", "error", "done"])
        move = Move(state=state, final=state == "done" and draw.random() < 0.5, why=draw.choice([None, "so"]))
    if move is None or draw.random() < 0.6:
        fence = a_fence(
            draw.choice([FenceOp.BEGIN, FenceOp.BEGIN, *FenceOp]),
            entity_id,
            draw.choice(["t1", "t2", "t3"]),
            key=a_key(entity_id, draw.randrange(2)),
            after=draw.choice([None, None, "t1", "t2"]),
            digest=draw.choice(["d1"] * 9 + ["d2"]),
            in_flight=draw.choice([1_000.0, 5_000.0]),
            within=draw.choice([None, None, 0.0, 3_000.0]),
            status=draw.choice([s for s in EffectStatus if s not in (EffectStatus.ABSENT, EffectStatus.ATTEMPTING)]),
            receipt=draw.choice([None, 0, "r", {"a": [None, 1.5]}]),
            lookup_hint=draw.choice([None, {"c": None}]),
            why=draw.choice([None, "so"]),
            by=draw.choice([None, "ann"]),
        )
    return a_write(entity_id, draw.randrange(1, 12), move, fence, generation=int(draw.random() < 0.05))


def _comparable(answer: Answer) -> dict[str, Any]:
    seen = answer.model_dump()
    if (effect := seen["effect"]) is not None:
        # The clocks of two stores: the same to the nearest 500 s.
        effect["in_flight"] = round(effect["in_flight"] / 500)
        effect["since_first"] = round(effect["since_first"] / 500)
        effect["in_doubt_for"] = round(effect["in_doubt_for"] / 500)
        effect["first_at"] = effect["first_at"] is not None
    return seen
