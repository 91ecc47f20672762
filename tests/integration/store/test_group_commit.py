"""Group commit: writes that arrive together commit together, and a bad one affects no other (invariant 8)."""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Sequence

import pytest

from perdure._store.group_commit import GroupCommit, Transient
from perdure._store.postgres import PostgresStore
from perdure._wire.writes import Answer, FenceOp, Gate, Write
from perdure.errors import DatabaseUnavailable, RefusedWrite, UnstorableWrite
from tests.integration.store.stores import (
    PATIENCE,
    Calls,
    Connection,
    a_begin,
    a_fence,
    a_move,
    states,
    store_at,
    written,
)

LONG = secrets.token_hex(2000)
"""Longer than a key of an index can be, and random, so that it can't be compressed."""

POISON = {
    "NUL": a_move("bad", 1, why="\0"),
    "key too long": a_begin("bad", 1, key=LONG),
    "a constraint": a_move("bad", 1).model_copy(update={"lifecycle": "Not A Name"}),
    "lone surrogate": a_move("bad", 1, why="\ud800"),
}


class Scripted:
    """Commits nowhere; each batch waits for the gate, and ends as it was told to."""

    def __init__(self) -> None:
        self.batches: list[list[Write]] = []
        self.ends: list[Exception] = []
        self.gate = asyncio.Event()
        self.gate.set()

    async def commit(self, batch: Sequence[str]) -> Sequence[str | None]:
        self.batches.append([Write.model_validate_json(body) for body in batch])
        await self.gate.wait()
        if self.ends:
            raise self.ends.pop(0)
        return [Answer(gate=Gate.OPEN).model_dump_json()] * len(batch)


async def turns(count: int) -> None:
    """Let the event loop go round."""
    for _ in range(count):
        await asyncio.sleep(0)


async def test_concurrent_writes_are_committed_together(store: PostgresStore, db: Connection) -> None:
    last_id = "select pg_current_xact_id()::text::bigint"
    await written(store, a_move("warm", 1))
    before = await db.fetchval(last_id)

    async def moves(entity_id: int) -> None:
        for version in range(1, 11):
            await store.write(a_move(entity_id, version, f"s{version}"), patience=PATIENCE)

    await asyncio.gather(*(moves(number) for number in range(200)))
    transactions = await db.fetchval(last_id) - before
    assert transactions < 100, "2,000 writes"
    assert await db.fetchval("select count(*) from perdure.transition where id <> 'warm'") == 2000


async def test_a_lone_write_does_not_wait_for_company() -> None:
    there = Scripted()
    writing = asyncio.create_task(GroupCommit(there.commit).write(a_move("a", 1), patience=PATIENCE))
    await turns(8)  # of the event loop; no time passes in them
    assert writing.done()
    assert [len(batch) for batch in there.batches] == [1]


@pytest.mark.parametrize("later", range(12))
async def test_a_write_that_comes_while_the_last_batch_ends_is_sent(later: int) -> None:
    group = GroupCommit(Scripted().commit)
    first = asyncio.create_task(group.write(a_move("a", 1), patience=PATIENCE))
    await turns(later)
    await group.write(a_move("b", 1), patience=PATIENCE)
    await first


async def test_a_batch_is_sorted_by_entity_and_version() -> None:
    there = Scripted()
    group = GroupCommit(there.commit)
    named = [("b", 1), ("a", 2), ("é", 1), ("B", 1), ("a", 1)]
    await asyncio.gather(*(group.write(a_move(*each), patience=PATIENCE) for each in named))
    (batch,) = there.batches
    assert [(each.id, each.version) for each in batch] == [("B", 1), ("a", 1), ("a", 2), ("b", 1), ("é", 1)]


async def test_a_write_whose_caller_went_before_it_was_sent_is_never_committed() -> None:
    there = Scripted()
    group = GroupCommit(there.commit)
    there.gate.clear()
    first = asyncio.create_task(group.write(a_move("a", 1), patience=PATIENCE))
    await turns(5)
    second = asyncio.create_task(group.write(a_move("b", 1), patience=PATIENCE))
    third = asyncio.create_task(group.write(a_move("c", 1), patience=PATIENCE))
    await turns(5)
    second.cancel()
    there.gate.set()
    await asyncio.gather(first, third)
    await group.close()
    assert [[each.id for each in batch] for batch in there.batches] == [["a"], ["c"]]


async def test_a_failed_write_whose_caller_has_gone_is_not_sent_again() -> None:
    there = Scripted()
    there.ends = [Transient("connection lost")]
    group = GroupCommit(there.commit)
    gone = asyncio.create_task(group.write(a_move("a", 1), patience=PATIENCE))
    stays = asyncio.create_task(group.write(a_move("b", 1), patience=PATIENCE))
    await turns(5)
    gone.cancel()
    await stays
    await group.close()
    assert [[each.id for each in batch] for batch in there.batches] == [["a", "b"], ["b"]]


async def test_patience_ends_with_what_was_in_the_way() -> None:
    there = Scripted()
    there.ends = [Transient("connection refused")] * 100
    with pytest.raises(DatabaseUnavailable, match=r"booking/a: .* within 0.2 s: connection refused"):
        await GroupCommit(there.commit).write(a_move("a", 1), patience=0.2)


async def test_patience_ends_in_the_middle_of_a_commit_as_well() -> None:
    there = Scripted()
    there.gate.clear()
    group = GroupCommit(there.commit)
    with pytest.raises(DatabaseUnavailable, match="no answer"):
        await group.write(a_move("a", 1), patience=0.05)
    there.gate.set()
    await group.close()


async def test_an_error_nobody_thought_of_reaches_the_callers_and_stops_nobody_else(
    caplog: pytest.LogCaptureFixture,
) -> None:
    there = Scripted()
    there.ends = [ZeroDivisionError()]
    group = GroupCommit(there.commit, most=1)
    with caplog.at_level(logging.ERROR):
        first, second = await asyncio.gather(
            *(group.write(a_move(each, 1), patience=PATIENCE) for each in "ab"), return_exceptions=True
        )
    assert isinstance(first, DatabaseUnavailable)
    assert "ZeroDivisionError" in str(first)
    assert isinstance(second, Answer)
    assert "a batch of 1 writes failed" in caplog.text


@pytest.mark.parametrize("poison", POISON)
async def test_one_write_that_can_not_be_stored_costs_few_calls_and_no_other_write(
    store: PostgresStore, db: Connection, poison: str
) -> None:
    calls = Calls(store)
    good = [a_move(f"{number:03}", 1) for number in range(199)]
    bad = asyncio.create_task(store.write(POISON[poison], patience=PATIENCE))
    answers = await written(store, *good)
    assert [answer.gate for answer in answers] == [Gate.OPEN] * 199
    with pytest.raises(RefusedWrite) as refused:
        await bad
    assert isinstance(refused.value, UnstorableWrite) == (poison != "a constraint")
    assert len(calls.sizes) <= 17
    assert await db.fetchval("select count(*) from perdure.transition where state = 'doing'") == 199
    assert await states(db, "bad") == []


async def test_an_answer_that_can_not_be_read_fails_its_own_write_alone_and_is_not_called_uncommitted(
    store: PostgresStore, db: Connection
) -> None:
    await written(store, a_begin("bad", 1))
    await db.execute("update perdure.effect set receipt = $1", "[" * 250 + "]" * 250)  # deeper than Pydantic reads
    calls = Calls(store)
    bad = asyncio.create_task(store.write(a_move("bad", 2, fence=a_fence(FenceOp.READ, "bad")), patience=PATIENCE))
    answers = await written(store, *(a_move(each, 1) for each in "abc"))
    assert [answer.gate for answer in answers] == [Gate.OPEN] * 3
    with pytest.raises(DatabaseUnavailable, match="booking/bad: PostgreSQL has committed the write, and its answer"):
        await bad
    assert calls.sizes == [4]
    assert await states(db, "bad") == ["doing"]


async def test_two_processes_that_write_the_same_entities_never_deadlock(
    dsn: str, store: PostgresStore, db: Connection
) -> None:
    ids = [str(number) for number in range(200)]
    async with store_at(dsn) as other:
        for version in range(1, 13):
            mine = written(store, *(a_move(each, 2 * version) for each in ids))
            theirs = written(other, *(a_move(each, 2 * version + 1) for each in reversed(ids)))
            await asyncio.gather(mine, theirs)
    assert await db.fetchval("select min(version) from perdure.ident") == 25
    assert await db.fetchval("select max(version) from perdure.ident") == 25


async def test_batches_in_opposite_order_never_wait_for_each_other(store: PostgresStore) -> None:
    await written(store, *(a_move(number, 1) for number in range(200)))
    for version in range(2, 14):
        batch = [a_move(number, version).model_dump_json() for number in range(200)]
        # Unsorted, as no store sends them; an error would be raised here.
        ends = await asyncio.gather(store._commit(batch), store._commit(batch[::-1]))
        for first, second in zip(ends[0], reversed(ends[1]), strict=True):
            assert first or second, "at least one of them got through"
