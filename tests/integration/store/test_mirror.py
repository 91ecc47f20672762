"""The mirror in PostgreSQL: it only moves forward, an end is an end, and generations don't mix (invariants 6 and 7)."""

from __future__ import annotations

import asyncio
import json
import random
from typing import Literal

import asyncpg
import pytest

from perdure._services.results import query
from perdure._store.postgres import PostgresStore
from perdure._wire.writes import Answer, FenceOp, Gate, Move, Verdict, Write
from perdure.contracts.outcomes import EffectStatus
from tests.deadline import until
from tests.integration.store.stores import (
    Calls,
    Connection,
    a_begin,
    a_fence,
    a_key,
    a_move,
    a_write,
    an_outcome,
    states,
    store_at,
    written,
)

START = "select perdure.start('booking', $1, $2::jsonb, 'shop-1')"
RESTART = "select perdure.restart('booking', $1, 'ann', 'once more')"

RECORD_DELIVERIES = query("delivered")


async def one(store: PostgresStore, write: Write) -> Answer:
    return (await written(store, write))[0]


async def is_open(db: Connection, entity_id: str) -> bool:
    return bool(await db.fetchval("select exists (select from perdure.entity where id = $1)", entity_id))


async def apply(db: Connection, *writes: Write) -> None:
    """In whatever transaction is open on `db`."""
    body = "[" + ",".join(write.model_dump_json(exclude_none=True) for write in writes) + "]"
    await db.fetch("select * from perdure.apply_writes($1::jsonb)", body)


async def test_a_move_without_a_snapshot_keeps_the_last_one_with_what_it_heard(
    store: PostgresStore, db: Connection
) -> None:
    await one(store, a_write("a", 1, Move(state="doing", snapshot={"n": 5}, acknowledged=5)))
    await one(store, a_write("a", 2, Move(state="doing", attention="look")))
    row = await db.fetchrow("select snapshot->>'n' as n, acknowledged, attention from perdure.entity")
    assert tuple(row or ()) == ("5", 5, "look")


async def test_an_older_snapshot_that_is_written_later_lacks_the_messages_since(
    store: PostgresStore, db: Connection
) -> None:
    await one(store, a_write("a", 1, Move(state="doing", snapshot={"n": 2}, acknowledged=2)))
    await one(store, a_write("a", 2, Move(state="doing", snapshot={"n": 1}, acknowledged=1)))
    row = await db.fetchrow("select snapshot->>'n' as n, acknowledged from perdure.entity")
    assert tuple(row or ()) == ("1", 1)


async def test_writes_in_any_order_leave_the_newest_state(store: PostgresStore, db: Connection) -> None:
    versions = [version for version in range(1, 21) for _ in range(2)]
    random.Random(1).shuffle(versions)
    for version in versions:
        await one(store, a_move("a", version, f"s{version}"))
    assert await db.fetchval("select state from perdure.entity where id = 'a'") == "s20"
    shown = [int(state[1:]) for state in await states(db, "a")]
    assert shown == sorted(set(shown)), "each was shown once, and none after a newer one"


async def test_writes_of_one_entity_that_arrive_together_are_all_kept(store: PostgresStore, db: Connection) -> None:
    calls = Calls(store)
    writes = [a_move("a", version, f"s{version}") for version in range(1, 51)]
    random.Random(2).shuffle(writes)
    answers = await written(store, *writes)
    assert len(calls.sizes) < 5
    assert {answer.gate for answer in answers} == {Gate.OPEN}
    assert await states(db, "a") == [f"s{version}" for version in range(1, 51)]


async def test_of_two_raced_finals_the_first_wins_and_the_second_is_told(
    dsn: str, store: PostgresStore, db: Connection
) -> None:
    async with store_at(dsn) as other:
        ids = [str(number) for number in range(400)]
        mine = [a_move(each, 10, "done", final=True) for each in ids]
        theirs = [a_move(each, 11, "error", final=True) for each in reversed(ids)]
        late = [a_move(each, 12, "doing") for each in ids]
        ended = await asyncio.gather(written(store, *mine), written(other, *theirs), written(other, *late))
    for each, first, second, third in zip(ids, ended[0], reversed(ended[1]), ended[2], strict=True):
        finals = {answer.state for answer in (first, second, third)} - {"doing"}
        final = await db.fetchval("select final from perdure.ident where id = $1", each)
        assert finals == {final}
        assert {first.gate, second.gate} == {Gate.OPEN, Gate.FINAL} or third.gate is Gate.OPEN
        assert [first.gate, second.gate].count(Gate.OPEN) == 1
        assert not await is_open(db, each)
    rows = await db.fetch("select state from perdure.finished")
    assert len(rows) == len(ids)


async def test_a_write_beside_an_uncommitted_final_waits_and_is_told_the_end(
    store: PostgresStore, db: Connection
) -> None:
    await one(store, a_move("a", 1))
    calls = Calls(store)
    async with db.transaction():
        await apply(db, a_move("a", 2, "done", final=True))
        beside = asyncio.create_task(one(store, a_move("a", 3, "error")))
        await until(lambda: _made(calls, 2), "it was sent, and sent again")
        assert not beside.done()
    assert ((await beside).gate, (await beside).state) == (Gate.FINAL, "done")
    assert not await is_open(db, "a")


async def test_a_write_beside_a_final_that_is_rolled_back_is_applied(store: PostgresStore, db: Connection) -> None:
    calls = Calls(store)
    await one(store, a_move("a", 1))
    transaction = db.transaction()
    await transaction.start()
    await apply(db, a_move("a", 2, "done", final=True))
    beside = asyncio.create_task(one(store, a_move("a", 3, "error")))
    await until(lambda: _made(calls, 2), "it was sent")
    await transaction.rollback()
    assert ((await beside).gate, (await beside).state) == (Gate.OPEN, "error")


async def _made(calls: Calls, count: int) -> bool:
    return len(calls.sizes) >= count


async def test_the_end_moves_the_entity_with_all_that_was_known_of_it(store: PostgresStore, db: Connection) -> None:
    await db.execute(START, "a", json.dumps({"to": "bob"}))
    begun = await db.fetchval("select created_at from perdure.entity where id = 'a'")
    await one(store, a_move("a", 5, "doing", snapshot={"n": 1}))
    await one(store, a_move("a", 6, "done", final=True, why="4Q"))
    assert not await is_open(db, "a")
    row = await db.fetchrow("select * from perdure.finished where id = 'a'")
    assert row is not None
    assert (row["state"], row["why"], row["tenant"], row["created_at"]) == ("done", "4Q", "shop-1", begun)
    assert (json.loads(row["input"]), json.loads(row["snapshot"])) == ({"to": "bob"}, {"n": 1})
    assert await states(db, "a") == ["starting", "doing", "done"]


async def test_an_entity_stays_finished_after_its_month_was_dropped(store: PostgresStore, db: Connection) -> None:
    await db.execute(START, "a", "{}")
    await one(store, a_move("a", 5, "done", final=True))
    async with _months_dropped(db):
        assert await states(db, "a") == []
        late = await one(store, a_move("a", 6, "doing"))
        begin = await one(store, a_begin("a", 7))
        assert (late.gate, late.state) == (Gate.FINAL, "done")
        assert (begin.gate, begin.verdict, begin.effect) == (Gate.FINAL, None, None)
        assert await db.fetchval(START, "a", "{}") == "finished"
        assert not await is_open(db, "a")


class _months_dropped:  # noqa: N801
    """Drops the partitions of the running month; puts empty ones in their place at the end."""

    def __init__(self, db: Connection) -> None:
        self._db = db

    async def __aenter__(self) -> None:
        for parent in ("finished", "transition"):
            month = await self._db.fetchval("select to_char(clock_timestamp() at time zone 'UTC', 'YYYY_MM')")
            await self._db.execute(f"drop table perdure.{parent}_{month}")

    async def __aexit__(self, *_: object) -> None:
        await self._db.execute("select perdure.make_months(1)")


async def test_no_effect_goes_for_a_finished_entity_even_without_its_record(
    store: PostgresStore, db: Connection
) -> None:
    await one(store, a_begin("a", 1))
    await one(store, an_outcome("a", 1, EffectStatus.NOT_DONE))
    await one(store, a_move("a", 2, "done", final=True))
    for _ in range(2):
        answer = await one(store, a_begin("a", 3, "t2"))
        assert (answer.gate, answer.verdict) == (Gate.FINAL, None)
        await db.execute("delete from perdure.effect")
    assert await db.fetchval("select count(*) from perdure.effect") == 0


async def test_a_restart_is_refused_while_the_entity_is_open(store: PostgresStore, db: Connection) -> None:
    await db.execute(START, "a", "{}")
    with pytest.raises(asyncpg.ObjectNotInPrerequisiteStateError, match="still open"):
        await db.execute(RESTART, "a")


@pytest.mark.parametrize("status", [EffectStatus.ATTEMPTING, EffectStatus.IN_DOUBT])
async def test_a_restart_is_refused_while_an_effect_is_in_doubt(
    store: PostgresStore, db: Connection, status: EffectStatus
) -> None:
    await db.execute(START, "a", "{}")
    await one(store, a_begin("a", 1))
    if status is EffectStatus.IN_DOUBT:
        await one(store, an_outcome("a", 1, status))
    await one(store, a_move("a", 2, "done", final=True))
    with pytest.raises(asyncpg.ObjectNotInPrerequisiteStateError, match="booking/a/mail"):
        await db.execute(RESTART, "a")
    await one(store, a_write("a", 2, None, a_fence(FenceOp.RESOLVE, "a", status=EffectStatus.NOT_DONE, by="ann")))
    assert await db.fetchval(RESTART, "a") == 1


@pytest.mark.parametrize("act", [RESTART, "select perdure.forget('booking', $1, 'ann')"], ids=["restart", "forget"])
@pytest.mark.parametrize("isolation", ["repeatable_read", "serializable"])
async def test_an_act_that_a_doubt_forbids_is_refused_where_a_snapshot_could_hide_the_doubt(
    store: PostgresStore, db: Connection, act: str, isolation: Literal["repeatable_read", "serializable"]
) -> None:
    await db.execute(START, "a", "{}")
    await one(store, a_begin("a", 1))
    await one(store, an_outcome("a", 1, EffectStatus.NOT_DONE))
    await one(store, a_move("a", 2, "done", final=True))
    async with db.transaction(isolation=isolation):
        await db.fetchval("select count(*) from perdure.effect")  # takes the snapshot
        await store.pool.execute("update perdure.effect set status = 'in_doubt'")
        with pytest.raises(asyncpg.ObjectNotInPrerequisiteStateError, match=isolation.replace("_", " ").upper()):
            async with db.transaction():
                await db.execute(act, "a")
    with pytest.raises(asyncpg.ObjectNotInPrerequisiteStateError, match="is not known"):
        await db.execute(act, "a")


async def test_a_new_round_takes_its_own_writes_and_no_older_ones(store: PostgresStore, db: Connection) -> None:
    await db.execute(START, "a", json.dumps({"to": "bob"}))
    await one(store, a_move("a", 5, "done", final=True))
    assert await db.fetchval(RESTART, "a") == 1
    for old in (a_move("a", 5, "done", final=True), a_move("a", 99, "error"), a_begin("a", 99)):
        answer = await one(store, old)
        assert (answer.gate, answer.verdict, answer.state) == (Gate.OTHER_GENERATION, None, "starting")
    new = await one(store, a_begin("a", 7, generation=1, key="booking/a~1/mail", entering="doing"))
    assert (new.gate, new.verdict, new.state) == (Gate.OPEN, Verdict.FRESH, "doing")
    await one(store, a_move("a", 8, "done", final=True, generation=1))
    assert await states(db, "a") == ["starting", "done", "starting", "doing", "done"]
    assert [
        row["generation"] for row in await db.fetch("select generation from perdure.finished order by generation")
    ] == [0, 1]
    assert json.loads(await db.fetchval("select input from perdure.finished where generation = 1")) == {"to": "bob"}


async def test_of_restarts_at_once_one_starts_a_round(store: PostgresStore, db: Connection, dsn: str) -> None:
    await db.execute(START, "a", "{}")
    await one(store, a_move("a", 5, "done", final=True))
    async with asyncpg.create_pool(dsn, min_size=4, max_size=4) as pool:  # a session of the store waits 250 ms at most
        async with db.transaction():
            await db.execute("select from perdure.ident for update")
            restarts = [asyncio.create_task(pool.fetchval(RESTART, "a")) for _ in range(4)]
            await until(lambda: _waiting(db, 4), "all of them have begun")
        ended = await asyncio.gather(*restarts, return_exceptions=True)
    assert ended.count(1) == 1
    assert sum(isinstance(end, asyncpg.ObjectNotInPrerequisiteStateError) for end in ended) == 3
    assert await db.fetchval("select count(*) from perdure.outbox where kind = 'start' and generation = 1") == 1


async def _waiting(db: Connection, count: int) -> bool:
    return bool(await db.fetchval("select count(*) = $1 from pg_locks where not granted", count))


@pytest.mark.parametrize("restarted", [False, True], ids=["ended", "restarted"])
async def test_a_message_that_is_committed_beside_the_end_is_deleted_with_its_delivery(
    store: PostgresStore, db: Connection, restarted: bool
) -> None:
    await db.execute(START, "a", "{}")
    async with db.transaction():
        assert await db.fetchval("select perdure.signal('booking', 'a', 'note', '1')") == "sent"
        await one(store, a_move("a", 2, "done", final=True))
    if restarted:
        assert await db.fetchval(RESTART, "a") == 1
        await db.fetchval("select perdure.signal('booking', 'a', 'note', '2')")
    # Its workflow was still open, so the relay has delivered it.
    rows = await db.fetch("select seq from perdure.outbox where kind = 'message'")
    await db.execute(RECORD_DELIVERIES, *zip(*(("booking", "a", row["seq"], None) for row in rows), strict=True))
    left = await db.fetch("select payload, delivered_at is not null as delivered from perdure.message")
    assert [tuple(row) for row in left] == [("2", True)] * restarted


@pytest.mark.parametrize(("final", "wakes"), [(False, 1), (True, 0)], ids=["open", "ended"])
async def test_a_late_done_wakes_the_lifecycle_that_gave_it_up(
    store: PostgresStore, db: Connection, final: bool, wakes: int
) -> None:
    await one(store, a_begin("a", 1))
    await one(store, an_outcome("a", 1, EffectStatus.IN_DOUBT))
    await one(store, a_move("a", 2, "error", final=final))
    await one(store, an_outcome("a", 1, EffectStatus.DONE, receipt=1))
    assert await woken(db) == [{"key": a_key("a")}] * wakes


@pytest.mark.parametrize("late", [True, False])
@pytest.mark.parametrize(
    ("op", "said"),
    [
        (FenceOp.OUTCOME, EffectStatus.DONE),
        (FenceOp.RESOLVE, EffectStatus.DONE),
        (FenceOp.RESOLVE, EffectStatus.NOT_DONE),
    ],
)
async def test_a_look_up_that_ends_after_its_run_has_parked_the_effect_wakes_it(
    store: PostgresStore, db: Connection, op: FenceOp, said: EffectStatus, late: bool
) -> None:
    await one(store, a_begin("a", 1))
    await one(store, an_outcome("a", 1, EffectStatus.IN_DOUBT))
    if late:
        await one(store, a_write("a", 3, None, a_fence(FenceOp.LOST, "a", why="no word")))
    await one(store, a_write("a", 2, None, a_fence(op, "a", status=said, by="look-up")))
    assert await woken(db) == [{"key": a_key("a")}] * late


@pytest.mark.parametrize("said", [EffectStatus.NOT_DONE, EffectStatus.REFUSED])
@pytest.mark.parametrize("late", [True, False])
async def test_a_late_no_wakes_the_lifecycle_that_waits_for_a_person(
    store: PostgresStore, db: Connection, said: EffectStatus, late: bool
) -> None:
    await one(store, a_begin("a", 1))
    if late:
        await one(store, a_write("a", 2, None, a_fence(FenceOp.LOST, "a", why="no heartbeat")))
    await one(store, an_outcome("a", 1, said, why="busy"))
    assert await woken(db) == [{"key": a_key("a")}] * late


@pytest.mark.parametrize(
    ("op", "said"), [(FenceOp.RESOLVE, EffectStatus.NOT_DONE), (FenceOp.OUTCOME, EffectStatus.IN_DOUBT)]
)
async def test_what_the_run_has_learned_by_itself_or_does_not_know_yet_wakes_nobody(
    store: PostgresStore, db: Connection, op: FenceOp, said: EffectStatus
) -> None:
    await one(store, a_begin("a", 1))
    await one(store, a_write("a", 2, None, a_fence(FenceOp.LOST, "a", why="no heartbeat")))
    await one(store, a_write("a", 3, None, a_fence(op, "a", status=said)))
    assert await woken(db) == []


async def woken(db: Connection) -> list[object]:
    """Whom the outbox is to wake."""
    rows = await db.fetch("select body from perdure.outbox where kind = 'wake'")
    return [json.loads(row["body"]) for row in rows]
