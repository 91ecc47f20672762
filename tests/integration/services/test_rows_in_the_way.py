"""No single row stops a relay: not an orphan, nor one that can't be read or put on record."""

from __future__ import annotations

import asyncio
from itertools import pairwise
from typing import Any, Literal

import asyncpg
import pytest
from temporalio.client import (
    Client,
    DescribeWorkflowInput,
    Interceptor,
    OutboundInterceptor,
    StartWorkflowInput,
    WorkflowExecutionDescription,
    WorkflowHandle,
)
from temporalio.service import RPCError, RPCStatusCode

from perdure._services.line import LONGEST_LINE, LONGEST_ROW
from perdure._services.pace import BATCH, FULL
from perdure._services.relay import Relay
from perdure._store import connecting
from perdure._store.postgres import Database
from perdure.contracts.sizes import LARGEST
from perdure.errors import TemporalUnavailable
from tests.apps import purchases
from tests.apps.listening import app
from tests.world import World

pytestmark = pytest.mark.world(app)

KIND = "listener"
START = "select perdure.start('listener', $1, '{}')"
SIGNAL = "select perdure.signal('listener', $1, 'add', '1')"
REJECT = """
    with gone as (delete from perdure.outbox returning *)
    insert into perdure.rejected (seq, lifecycle, id, generation, kind, body, reason)
    select seq, lifecycle, id, generation, kind, body, 'a test' from gone returning seq
"""
WAITING = "select id from perdure.outbox order by id"


async def delivered(world: World, relay: Relay, entity_id: str) -> None:
    """Make generations until Temporal has an entity's workflow."""

    async def known() -> bool:
        await relay.once()
        try:
            await world.handle(KIND, entity_id).describe()
        except RPCError:
            return False
        return True

    await world.until(known, f"{entity_id} delivered")


async def orphans(world: World, count: int) -> None:
    """Messages whose entity is not there."""
    for number in range(count):
        await world.db.execute(START, f"orphan-{number}")
        await world.db.execute(SIGNAL, f"orphan-{number}")
    for table in ("ident", "entity"):
        await world.db.execute(f"delete from perdure.{table}")
    await world.db.execute("delete from perdure.outbox where kind = 'start'")


@pytest.mark.parametrize(("count", "window"), [(1, 1), (BATCH, BATCH)])
async def test_messages_without_an_entity_are_put_aside_with_the_reason(
    world: World, relay: Relay, count: int, window: int
) -> None:
    await orphans(world, count)
    await world.db.execute(START, "good")
    relay.pace.window = window  # as after an outage of Temporal
    await delivered(world, relay, "good")
    reasons = await world.db.fetch("select distinct reason from perdure.rejected where id = 'orphan-0'")
    assert [row[0] for row in reasons] == [
        "the database has no entity listener/orphan-0: no message can be sent to it",
    ]
    assert await world.db.fetchval("select count(*) from perdure.rejected") == count
    assert await world.db.fetchval("select count(*) from perdure.outbox") == 0


async def test_messages_that_are_gone_are_put_aside_with_the_reason(world: World, relay: Relay) -> None:
    await world.db.execute(START, "bare")
    for _ in range(2):
        await world.db.execute(SIGNAL, "bare")
    await world.db.execute("delete from perdure.message")
    await world.db.execute(START, "good")
    relay.pace.window = 1
    await delivered(world, relay, "good")
    assert await relay.once() is False, "nothing is due any more"
    reasons = await world.db.fetch("select distinct reason from perdure.rejected")
    assert [row[0] for row in reasons] == ["perdure.message does not have the message to listener/bare any more"]
    assert await world.db.fetchval("select count(*) from perdure.outbox") == 0


async def test_many_messages_for_later_hold_up_none_behind_them(world: World, relay: Relay) -> None:
    await world.db.execute(START, "a")
    later = "perdure.signal('listener', 'a', 'add', '1', not_before => now() + interval '1 day')"
    await world.db.execute(f"select {later} from generate_series(1, {BATCH})")
    await world.db.execute(SIGNAL, "a")

    async def sent() -> bool:
        await relay.once()
        return bool(await world.db.fetchval("select count(*) = 1 from perdure.message where delivered_at is not null"))

    await world.until(sent, "the one that is due")


async def test_messages_for_many_starts_that_wait_hold_up_nobody_else(world: World, relay: Relay) -> None:
    later = "perdure.start('listener', n::text, '{}', not_before => now() + interval '1 day')"
    for act in (later, "perdure.signal('listener', n::text, 'add', '1')"):
        await world.db.execute(f"select {act} from generate_series(1, {BATCH}) n")
    await world.db.execute(START, "good")
    await delivered(world, relay, "good")


async def test_a_number_that_would_lose_digits_of_a_decimal_is_rejected(world: World) -> None:
    async with world.worker(purchases.app):
        await world.db.execute("""select perdure.start('purchase', 'a', '{"amount": 12345678901234567.89}')""")
        await world.db.execute("""select perdure.start('purchase', 'b', '{"amount": "12345678901234567.89"}')""")
        await world.db.execute("select perdure.signal('purchase', 'b', 'pay', '12345678901234567.89')")
        await world.db.execute("""select perdure.signal('purchase', 'b', 'pay', '"12345678901234567.89"')""")
        assert await world.ended("purchase", "b") == "shipped"

        async def rejected() -> bool:
            return bool(await world.db.fetchval("select count(*) = 2 from perdure.rejected"))

        await world.until(rejected, "both rejected")
    more = "has a number with more digits than a float holds, for a Decimal: write it as text"
    reasons = await world.db.fetch("select id, reason from perdure.rejected order by id")
    assert [(row["id"], row["reason"].partition(more)[1]) for row in reasons] == [("a", more), ("b", more)]


@pytest.mark.parametrize(
    ("data", "why"),
    [
        ("[" * 1200 + "]" * 1200, "its JSON is nested 100 levels deep or deeper"),
        ("1" + "0" * 4500, "its JSON has an integer with more digits than Python reads"),
    ],
    ids=["deep", "a long integer"],
)
async def test_json_that_python_can_not_read_is_rejected_with_the_reason_and_the_rest_goes_on(
    world: World, relay: Relay, data: str, why: str
) -> None:
    for entity_id in ("a", "bad"):
        await world.db.execute(START, entity_id)
    for _ in range(2):
        await world.db.execute(SIGNAL, "a")
    unread = "message_id = (select message_id from perdure.outbox where kind = 'message' order by seq limit 1)"
    await world.db.execute(f"update perdure.message set payload = $1 where {unread}", data)
    await world.db.execute("update perdure.entity set input = $1 where id = 'bad'", data)

    async def empty() -> bool:
        await relay.once()
        return bool(await world.db.fetchval("select not exists (select from perdure.outbox)"))

    await world.until(empty, "nothing waits")
    rejected = await world.db.fetch("select id, kind, reason from perdure.rejected order by id")
    assert [(row["id"], row["kind"]) for row in rejected] == [("a", "message"), ("bad", "start")]
    assert [row["reason"].partition(": ")[0] for row in rejected] == [why, why]
    assert await world.db.fetchval("select count(delivered_at) from perdure.message") == 1


async def test_messages_behind_a_rejected_start_are_not_tried_meanwhile(world: World, relay: Relay) -> None:
    await world.db.execute(START, "large")
    await world.db.execute(f"update perdure.entity set input = to_jsonb(repeat('x', {LARGEST}))")
    await world.db.execute(SIGNAL, "large")

    async def rejected() -> bool:
        await relay.once()
        return bool(await world.db.fetchval("select count(*) = 1 from perdure.rejected"))

    await world.until(rejected, "rejected")
    row = await world.db.fetchrow("select tries, not_before >= created_at + interval '30 s' from perdure.outbox")
    assert row is not None
    assert tuple(row) == (0, True)


async def test_a_start_goes_before_its_messages_however_many_have_their_places(world: World, relay: Relay) -> None:
    await world.db.execute(START, "again")
    await world.db.execute(
        f"select perdure.signal('listener', 'again', 'add', '1') from generate_series(1, {2 * BATCH})"
    )
    await world.db.execute(
        "update perdure.message set ordinal = x.seq from perdure.outbox x where x.message_id = message.message_id"
    )
    await relay.once()
    await world.handle(KIND, "again").describe()


async def test_a_wake_that_no_run_waits_for_is_gone(world: World, relay: Relay) -> None:
    await world.db.execute(START, "a")
    await world.db.execute("delete from perdure.outbox")
    await world.db.execute(
        "insert into perdure.outbox (lifecycle, id, generation, kind, body) "
        "values ('listener', 'a', 0, 'wake', '{\"key\": \"listener/a/do\"}')"
    )
    await relay.once()
    assert await world.db.fetchval("select count(*) from perdure.outbox") == 0


async def test_many_messages_for_an_entity_that_somebody_holds_hold_up_nobody_else(world: World, relay: Relay) -> None:
    await world.db.execute(START, "held")
    await world.db.execute("select perdure.signal('listener', 'held', 'add', '1') from generate_series(1, 2000)")
    await world.db.execute(START, "good")
    relay.pace.window = 1
    operator = await asyncpg.connect(world.dsn)
    try:
        # As perdure.drop_rejected does, in a transaction that its operator does not end.
        await operator.execute("select pg_advisory_lock(hashtextextended('listener/held', x'70657264'::bigint))")
        await delivered(world, relay, "good")
    finally:
        await operator.close()


async def test_a_message_in_an_open_transaction_keeps_its_entity_from_being_dropped(world: World) -> None:
    await world.db.execute(START, "a")
    seq = await world.db.fetchval(REJECT)
    other = await asyncpg.connect(world.dsn)
    try:
        async with world.db.transaction():
            assert await world.db.fetchval(SIGNAL, "a") == "sent"
            await other.execute("set lock_timeout = '200ms'")
            with pytest.raises(asyncpg.LockNotAvailableError):
                await other.execute("select perdure.drop_rejected($1, 'ann')", seq)
        await other.execute("select perdure.drop_rejected($1, 'ann')", seq)
    finally:
        await other.close()
    assert await world.db.fetchval("select count(*) from perdure.outbox") == 0


@pytest.mark.parametrize(("dropped", "answer"), [(True, "started"), (False, "open")])
async def test_a_start_waits_for_a_drop_that_is_under_way_and_answers_by_what_came_of_it(
    world: World, dropped: bool, answer: str
) -> None:
    await world.db.execute(START, "a")
    seq = await world.db.fetchval(REJECT)
    app = await asyncpg.connect(world.dsn)
    waits = f"select cardinality(pg_blocking_pids({app.get_server_pid()})) > 0"
    try:
        dropping = world.db.transaction()
        await dropping.start()
        await world.db.execute("select perdure.drop_rejected($1, 'ann')", seq)
        starting = asyncio.create_task(app.fetchval("select perdure.start('listener', 'a', '{}')"))
        await world.until(lambda: world.db.fetchval(waits), "the start waits")
        await (dropping.commit() if dropped else dropping.rollback())
        assert await starting == answer
    finally:
        await app.close()
    assert await world.db.fetchval("select count(*) from perdure.entity") == 1


@pytest.mark.parametrize("when", ["9999-12-31 23:59:59-05", "290000-01-01"])
async def test_a_time_that_no_client_can_read_holds_up_nobody_else(world: World, relay: Relay, when: str) -> None:
    for entity_id in ("far", "good"):
        await world.db.execute(START, entity_id)
    await world.db.execute(
        f"update perdure.outbox set not_before = '{when}', due_at = '{when}' where id = 'far' and kind = 'start'"
    )
    await world.db.execute(SIGNAL, "far")
    await delivered(world, relay, "good")
    rows = await world.db.fetch("select id from perdure.outbox where kind = 'start'")
    assert [row["id"] for row in rows] == ["far"]


async def test_a_row_that_the_database_cannot_record_is_put_off_alone(world: World, relay: Relay) -> None:
    await world.db.execute("select perdure.start('listener', 'odd', '{\"numbers\": \"none\"}')")
    for number in range(5):
        await world.db.execute(START, f"good-{number}")
    # What it is rejected under is taken: so that a batch with it can't be committed.
    await world.db.execute(
        "insert into perdure.rejected (seq, lifecycle, id, generation, kind, body, reason) "
        "select seq, 'listener', 'another', 0, 'start', '{}', 'a test' from perdure.outbox where id = 'odd'"
    )
    for number in range(5):
        await delivered(world, relay, f"good-{number}")

    async def put_off() -> bool:
        await relay.once()
        return bool(await world.db.fetchval("select error like 'UniqueViolationError%' from perdure.outbox"))

    await world.until(put_off, "put off")
    assert [row["id"] for row in await world.db.fetch(WAITING)] == ["odd"]


async def test_a_row_to_reject_whose_entity_is_held_keeps_no_other_from_being_recorded(
    world: World, relay: Relay
) -> None:
    await world.db.execute("select perdure.start('listener', 'odd', '{\"numbers\": \"none\"}')")
    await world.db.execute(SIGNAL, "odd")
    for number in range(5):
        await world.db.execute(START, f"good-{number}")
    operator = await asyncpg.connect(world.dsn)
    waits = "select id, kind, error is not null as tried, not_before > now() as waits from perdure.outbox order by seq"
    try:
        async with operator.transaction():
            await operator.execute("select from perdure.entity where id = 'odd' for update")
            for _ in range(2):  # the message gets its place first
                await relay.once()
            assert [tuple(row) for row in await world.db.fetch(waits)] == [
                ("odd", "start", True, True),
                ("odd", "message", False, True),
            ]
    finally:
        await operator.close()

    async def rejected() -> bool:
        await relay.once()
        return bool(await world.db.fetchval("select attention like 'rejected: %' from perdure.entity where id = 'odd'"))

    await world.until(rejected, "rejected")


async def test_a_row_that_this_relay_leaves_to_others_keeps_it_from_no_pause(world: World, relay: Relay) -> None:
    await world.db.execute(START, "a")
    await delivered(world, relay, "a")
    await world.db.execute("select perdure.signal('listener', 'a', 'unheard-of', '1')")

    async def declined() -> bool:
        await relay.once()
        return bool(await world.db.fetchval("select declined <> '{}' from perdure.outbox where kind = 'message'"))

    await world.until(declined, "declined")
    relay.every = FULL  # the worker of this process had no free slot at its last start
    assert await relay.once() is False
    assert relay.every == relay.pace.idle(notified=False)


async def test_a_table_that_is_locked_is_the_fault_of_no_row(world: World, relay: Relay) -> None:
    await world.db.execute(START, "a")
    async with world.holding("perdure.entity"):
        with pytest.raises(asyncpg.LockNotAvailableError):
            await relay.once()
    assert await world.db.fetchval("select count(*) from perdure.outbox where tries = 0 and error is null") == 1
    await delivered(world, relay, "a")


class Ticking:
    """A clock that goes on by a second whenever somebody looks at it."""

    def __init__(self) -> None:
        self._now = 0.0

    def monotonic(self) -> float:
        self._now += 1.0
        return self._now


async def test_a_long_line_is_committed_in_parts(world: World, relay: Relay, monkeypatch: pytest.MonkeyPatch) -> None:
    """PostgreSQL would end a transaction that waits too long for a Temporal that answers slowly."""
    monkeypatch.setattr("perdure._services.line.time", Ticking())
    await world.db.execute(START, "a")
    for _ in range(9):
        await world.db.execute(SIGNAL, "a")
    waiting = [10]
    while waiting[-1]:
        await relay.once()
        waiting.append(await world.db.fetchval("select count(*) from perdure.outbox"))
    assert max(before - after for before, after in pairwise(waiting)) == LONGEST_LINE


class Slow(Interceptor):
    """A Temporal that answers each call late."""

    def intercept_client(self, next: OutboundInterceptor) -> OutboundInterceptor:
        """See base class."""

        class Outbound(OutboundInterceptor):
            async def start_workflow(self, input: StartWorkflowInput) -> WorkflowHandle[Any, Any]:
                await asyncio.sleep(0.3)
                return await super().start_workflow(input)

            async def describe_workflow(self, input: DescribeWorkflowInput) -> WorkflowExecutionDescription:
                await asyncio.sleep(0.3)
                return await super().describe_workflow(input)

        return Outbound(next)


async def test_a_row_that_takes_several_slow_calls_is_put_off_before_postgresql_ends_the_transaction(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert float(connecting.BOUNDS["idle_in_transaction_session_timeout"].removesuffix("s")) > LONGEST_ROW
    monkeypatch.setattr("perdure._services.line.LONGEST_ROW", 0.4)
    await world.db.execute(START, "a")
    await world.db.execute("update perdure.database set epoch = (extract(epoch from clock_timestamp()) * 1e6)::bigint")
    client = Client(**(world.temporal_client.config() | {"interceptors": [Slow()]}))
    database = Database(world.dsn)
    try:
        with pytest.raises(TemporalUnavailable, match="took longer than"):
            await Relay(await database.open(), client, app, world.config).once()
    finally:
        await database.close()
    assert await world.db.fetchval("select tries from perdure.outbox") == 1


class Busy(Interceptor):
    """A Temporal that can't accept one workflow now, and one never."""

    def intercept_client(self, next: OutboundInterceptor) -> OutboundInterceptor:
        """See base class."""

        class Outbound(OutboundInterceptor):
            async def start_workflow(self, input: StartWorkflowInput) -> WorkflowHandle[Any, Any]:
                if input.id.endswith("/busy"):
                    raise RPCError("busy", RPCStatusCode.RESOURCE_EXHAUSTED, b"")
                if input.id.endswith("/refused"):
                    raise RPCError("unfit", RPCStatusCode.INVALID_ARGUMENT, b"")
                return await super().start_workflow(input)

        return Outbound(next)


async def test_a_row_that_temporal_can_not_accept_now_slows_down_no_other(world: World) -> None:
    database = Database(world.dsn)
    client = Client(**(world.temporal_client.config() | {"interceptors": [Busy()]}))
    relay = Relay(await database.open(), client, app, world.config)
    try:
        await world.db.execute(START, "busy")
        await world.db.execute(SIGNAL, "busy")
        await relay.once()  # the message gets its place
        for each in ("good", "refused"):
            await world.db.execute(START, each)
        await relay.once()  # raises nothing, as it does while Temporal accepts no row
        assert relay.pace.window == BATCH
        assert await world.db.fetchval("select count(distinct not_before) from perdure.outbox") == 1, "all of it waits"
        refused = await world.db.fetch("select id, reason from perdure.rejected")
        assert [tuple(row) for row in refused] == [("refused", "Temporal refuses it: unfit")]
        await world.db.execute("update perdure.outbox set not_before = now() + interval '1 day'")
        await world.db.execute("select perdure.cancel('listener', 'busy', 'ann')")
        while await relay.once():
            pass
        tried = [tuple(row) for row in await world.db.fetch("select kind, tries from perdure.outbox order by seq")]
        assert tried == [("start", 1), ("message", 0), ("message", 0)], "a cancel does not bring it forward"
    finally:
        await database.close()


@pytest.mark.parametrize("isolation", ["repeatable_read", "serializable"])
async def test_a_message_is_not_sent_to_a_round_that_is_over_in_an_old_snapshot(
    world: World, isolation: Literal["repeatable_read", "serializable"]
) -> None:
    await world.db.execute(START, "a")
    app_connection = await asyncpg.connect(world.dsn)
    try:
        async with app_connection.transaction(isolation=isolation):
            assert await app_connection.fetchval("select count(*) from perdure.ident") == 1
            await world.db.execute(
                "update perdure.ident set generation = 1, version = version + 1"
            )  # it ended, and runs again
            with pytest.raises(asyncpg.SerializationError):
                async with app_connection.transaction():
                    await app_connection.fetchval(SIGNAL, "a")
        async with app_connection.transaction(isolation=isolation):
            assert await app_connection.fetchval(SIGNAL, "a") == "sent"
            # Nor is its run held up until that transaction ends.
            held = "select count(*) from (select from perdure.ident for no key update skip locked) free"
            assert await world.db.fetchval(held) == 1
    finally:
        await app_connection.close()
    assert await world.db.fetchval("select generation from perdure.message") == 1


@pytest.mark.parametrize("when", ["infinity", "-infinity", "10000-01-01 00:00:00+00", "0001-12-31 BC"])
@pytest.mark.parametrize("what", ["start", "signal", "import_row"])
async def test_a_time_that_no_client_can_read_is_refused_by_name(world: World, what: str, when: str) -> None:
    await world.db.execute(START, "a")
    call, name = {
        "start": ("perdure.start('listener', 'b', '{}', not_before => $1::text::timestamptz)", "not_before"),
        "signal": ("perdure.signal('listener', 'a', 'add', '1', not_before => $1::text::timestamptz)", "not_before"),
        "import_row": ("perdure.import_row('listener', 'b', '{}', since => $1::text::timestamptz)", "since"),
    }[what]
    with pytest.raises(asyncpg.InvalidParameterValueError, match=rf"perdure\.{what}: {name} can not be {when[:6]}"):
        await world.db.fetchval(f"select {call}", when)


async def test_the_last_and_the_first_times_that_can_be_read_are_taken(world: World, relay: Relay) -> None:
    ends = ("9999-12-31 23:59:59.999999+00", "0001-01-01 00:00:00+00")
    for number, when in enumerate(ends):
        await world.db.fetchval(
            "select perdure.start('listener', $1, '{}', not_before => $2::text::timestamptz)", str(number), when
        )
    await delivered(world, relay, "1")
    assert [row["id"] for row in await world.db.fetch(WAITING)] == ["0"]


async def test_a_burst_after_a_few_rows_is_read_by_its_keys(world: World, relay: Relay) -> None:
    """PostgreSQL planned the statements while few rows waited, and knows of no more until it analyzes the tables."""
    for table in ("outbox", "entity", "ident"):
        await world.db.execute(f"alter table perdure.{table} set (autovacuum_enabled = false)")
    for number in range(8):
        await world.db.execute(START, f"few-{number}")
        await delivered(world, relay, f"few-{number}")
    burst = 5_000
    await world.db.execute(
        "select count(perdure.start('listener', 'many-' || n, '{}')) from generate_series(1, $1) n", burst
    )
    before, already = await _read(relay), relay.delivered
    while relay.delivered < already + 2 * BATCH:
        await relay.once()
    count = relay.delivered - already
    assert await _read(relay) - before < 100 * count  # with the old plan, each of them reads the whole burst


async def _read(relay: Relay) -> int:
    """Rows of outbox and entities that the relay's sessions have read by an index."""
    async with relay._pool.acquire() as connection:
        await connection.execute("select pg_stat_force_next_flush()")
        return int(
            await connection.fetchval(
                "select sum(idx_tup_fetch)::bigint from pg_stat_user_tables where relname in ('outbox', 'entity')"
            )
        )


async def test_a_message_left_behind_that_another_session_holds_is_not_waited_for(world: World, relay: Relay) -> None:
    for entity_id in ("free", "held"):
        await world.db.execute(START, entity_id)
        await world.db.execute(SIGNAL, entity_id)
    await world.db.execute("delete from perdure.outbox; update perdure.ident set final = 'done'")
    other = await asyncpg.connect(world.dsn)
    async with other.transaction():
        await other.execute("select from perdure.message where id = 'held' for update")
        await relay.once()
        assert [row["id"] for row in await world.db.fetch("select id from perdure.message")] == ["held"]
    await other.close()
