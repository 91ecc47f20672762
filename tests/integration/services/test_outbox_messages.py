"""A message through the outbox is handled once, in the order of commits, or rejected with the reason."""

from __future__ import annotations

import asyncio
import itertools
import json
import math
import random
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import asyncpg
import pytest
from temporalio.client import Client
from temporalio.service import RetryConfig

from perdure._services.pace import BATCH
from perdure._services.relay import Relay
from perdure._store.postgres import Database
from perdure._store.sql import queries
from perdure._wire.carried import CARRIED, Carried
from perdure.errors import TemporalUnavailable
from perdure.servers.temporal import TemporalServer
from tests.apps.listening import app
from tests.integration.store.stores import a_move
from tests.world import World

pytestmark = pytest.mark.world(app)

KIND = "listener"
START = "select perdure.start($1, $2, $3::jsonb)"
SIGNAL = "select perdure.signal($1, $2, $3, $4::jsonb, $5)"
HEARD = "select snapshot->'numbers' from perdure.finished where id = $1"


REJECTED = """
    with gone as (delete from perdure.outbox where id = $1 returning *)
    insert into perdure.rejected (seq, lifecycle, id, generation, kind, body, reason, message_id)
    select seq, lifecycle, id, generation, kind, body, 'a test', message_id from gone
"""


async def start(world: World, entity_id: str = "a", **told: Any) -> None:
    assert await world.db.fetchval(START, KIND, entity_id, json.dumps(told)) == "started"


async def say(world: World, name: str, payload: Any = None, message_id: str | None = None, to: str = "a") -> str:
    data = None if payload is None else json.dumps(payload)
    return str(await world.db.fetchval(SIGNAL, KIND, to, name, data, message_id))


async def heard(world: World, entity_id: str = "a") -> list[int]:
    """What the entity heard, once it has closed."""
    assert await world.ended(KIND, entity_id) == "closed"
    numbers: list[int] = json.loads(await world.db.fetchval(HEARD, entity_id))
    return numbers


async def test_what_is_said_in_a_transaction_is_heard_with_it_or_not_at_all(world: World) -> None:
    async with world.db.transaction():
        await start(world)
        assert await say(world, "add", 1) == "sent"
    transaction = world.db.transaction()
    await transaction.start()
    await say(world, "add", 2)
    await transaction.rollback()
    assert await say(world, "close") == "sent"
    async with world.worker(app):
        assert await heard(world) == [1]
    for table in ("message", "outbox", "rejected"):
        assert await world.db.fetchval(f"select count(*) from perdure.{table}") == 0
    assert await say(world, "add", 3) == "finished"


async def test_a_message_given_twice_under_one_id_is_heard_once(world: World) -> None:
    await start(world)
    assert await say(world, "add", 1, "m1") == "sent"
    assert await say(world, "add", 1, "m1") == "known"
    async with world.worker(app):

        async def delivered() -> bool:
            return bool(await world.db.fetchval("select delivered_at is not null from perdure.message"))

        await world.until(delivered, "delivered")
        assert await say(world, "add", 1, "m1") == "known"
        await say(world, "close")
        assert await heard(world) == [1]


async def test_a_message_delivered_again_is_heard_once_also_by_the_next_run(world: World) -> None:
    await start(world, renew_after=2)
    for number in range(5):
        await say(world, "add", number, f"m{number}")
    async with world.worker(app):

        async def told(count: int) -> bool:
            numbers: list[int] = await world.query(KIND, "a", "numbers")
            return len(numbers) == count

        await world.until(lambda: _all_delivered(world), "delivered")
        await world.until(lambda: told(5), "heard")
        again = (
            "insert into perdure.outbox (lifecycle, id, generation, kind, message_id) "
            "values ('listener', 'a', 0, 'message', $1)"
        )
        for number in (0, 3, 4):
            await world.db.execute(again, f"m{number}")
        await world.until(lambda: _all_delivered(world), "delivered again")
        await say(world, "close")
        assert await heard(world) == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("renew_after", [1, 1000])
async def test_a_message_whose_place_was_lost_by_a_failover_is_heard_once(world: World, renew_after: int) -> None:
    await start(world, renew_after=renew_after)
    async with world.worker(app):

        async def told() -> bool:
            return bool(await world.query(KIND, "a", "numbers") == [1])

        await say(world, "add", 1, "m1")
        await world.until(lambda: _all_delivered(world), "delivered")
        await world.until(told, "heard")
    # The standby that takes over has the message, and lacks what the relay has committed about it since.
    await world.db.execute(
        """
        update perdure.message set ordinal = null, delivered_at = null;
        insert into perdure.outbox (lifecycle, id, generation, kind, message_id)
        values ('listener', 'a', 0, 'message', 'm1');
        update perdure.database set epoch = (extract(epoch from clock_timestamp()) * 1e6)::bigint
        """
    )
    await world.db.execute(queries("perdure._services.ownership.exchange")("start_again"))
    async with world.worker(app):
        await world.until(lambda: _all_delivered(world), "delivered again")
        await say(world, "close")
        assert await heard(world) == [1]


@dataclass(frozen=True)
class Said:
    """A message, and the time of its transaction on the writer's clock."""

    number: int
    began: float
    committed: float


async def test_what_was_committed_before_another_transaction_began_is_heard_first_whoever_delivers(
    world: World,
) -> None:
    """Several writers for each entity, whose transactions overlap and take their time, and two relays."""
    entities, writers, each = 4, 3, 25
    for entity in range(entities):
        await start(world, str(entity))
    async with world.worker(app), world.worker(app), asyncpg.create_pool(world.dsn, min_size=12, max_size=12) as pool:

        async def tell(entity: int, writer: int) -> list[Said]:
            said = []
            for number in range(writer * each, (writer + 1) * each):
                async with pool.acquire() as connection:
                    began = time.monotonic()
                    async with connection.transaction():
                        await connection.fetchval(SIGNAL, KIND, str(entity), "add", str(number), None)
                        await asyncio.sleep(random.choice((0, 0, 0.005, 0.03)))
                    said.append(Said(number, began, time.monotonic()))
            return said

        sending = [tell(entity, writer) for entity in range(entities) for writer in range(writers)]
        told = await asyncio.gather(*sending)
        for entity in range(entities):
            await say(world, "close", to=str(entity))
            said = {each.number: each for lot in told[entity * writers : (entity + 1) * writers] for each in lot}
            order = [said[number] for number in await heard(world, str(entity))]
            assert len(order) == len(said) == writers * each
            for before, after in itertools.combinations(order, 2):
                assert after.committed > before.began, f"{before.number} was heard before {after.number}"
            assert await _signals(world, str(entity)) == len(order) + 1, "the relays held each other off"


async def test_a_delivery_that_is_repeated_keeps_the_order_whatever_was_committed_meanwhile(world: World) -> None:
    """The order is on record before the first delivery: else what comes late would take the place of what was heard."""
    await start(world)
    forget = """
        create function keep() returns trigger language plpgsql as $$ begin
            if old.message_id = 'm1' and not exists (select from perdure.message where message_id = 'late') then
                raise exception 'the connection is lost before the commit'; end if; return old; end $$;
        create trigger keep before delete on perdure.outbox for each row execute function keep()"""
    await world.db.execute(forget)
    late = await asyncpg.connect(world.dsn)
    slow = late.transaction()
    await slow.start()
    await late.fetchval(SIGNAL, KIND, "a", "add", "0", "late")  # the lowest number in the outbox, not committed yet
    await say(world, "add", 1, "m1")
    await say(world, "add", 2, "m2")
    async with world.worker(app):

        async def told() -> bool:
            numbers: list[int] = await world.query(KIND, "a", "numbers")
            return numbers == [1, 2]

        await world.is_in(KIND, "a", "open")
        await world.until(told, "both heard, and not deleted from the outbox")
        await slow.commit()
        await late.close()
        await say(world, "close")
        # Together with `m1` no delivery succeeds: that one must stay put off until the order of this one is on record.
        ordered = "select exists (select from perdure.message where message_id = 'late')"
        await world.until(lambda: world.db.fetchval(ordered), "the order is on record")
        await world.db.execute("drop trigger keep on perdure.outbox")  # the messages are gone once the entity has ended

        async def delivered() -> bool:
            await world.db.execute("update perdure.outbox set not_before = now() where not_before > now()")
            return await _all_delivered(world)

        await world.until(delivered, "what was put off is delivered", every=0.5)
        assert await heard(world) == [1, 2, 0]


async def test_a_message_with_a_place_stays_before_later_ones_if_the_clock_of_the_database_goes_back(
    world: World,
) -> None:
    await start(world)
    async with _relay(world, world.temporal_client) as relay:
        while await relay.once():
            pass
        due = "select perdure.signal($1, 'a', 'add', '1', not_before => now())"
        await world.db.fetchval(due, KIND)
        assert await relay.once(), "the message got its place"
        # By the clock of the server that takes over, its time is an hour away.
        await world.db.execute(
            "update perdure.outbox set due_at = due_at + interval '1 h', not_before = due_at + interval '1 h'"
        )
        await say(world, "add", 2)
        while await relay.once():
            pass
    await world.db.execute("update perdure.outbox set due_at = least(due_at, now()), not_before = now()")
    async with world.worker(app):
        await say(world, "close")
        assert await heard(world) == [1, 2]


async def test_a_message_that_is_put_off_before_a_relay_reads_it_stays_before_later_ones(world: World) -> None:
    """It is committed while the relay records that the message before it could not be delivered."""
    await start(world)
    other = await asyncpg.connect(world.dsn)
    async with _relay(world, world.temporal_client) as relay:
        while await relay.once():
            pass
        await world.handle(KIND, "a").terminate()
        await say(world, "add", 0, "first")
        assert await relay.once(), "the message got its place"
        await start(world, "b")
        async with other.transaction():
            await other.fetchval(SIGNAL, KIND, "a", "add", "1", "second")
            # The relay waits for this row after its deliveries, and before it puts off the messages of "a".
            await other.execute("select from perdure.outbox where id = 'b' for update")
            batch = asyncio.create_task(relay.once())
            blocked = (
                f"select exists (select from pg_locks where {other.get_server_pid()} = any(pg_blocking_pids(pid)))"
            )
            await world.until(lambda: world.db.fetchval(blocked), "the relay waits")
        await batch
        assert await world.db.fetchval("select min(not_before) > now() from perdure.outbox"), "both are put off"
        await say(world, "add", 2, "third")
        while await relay.once():
            pass
    await other.close()
    rows = await world.db.fetch("select message_id from perdure.message order by ordinal")
    assert [row["message_id"] for row in rows] == ["first", "second", "third"]


async def test_a_message_for_later_holds_up_nothing_and_comes_in_time(world: World) -> None:
    await start(world)
    later = "select perdure.signal($1, 'a', 'add', $4::jsonb, $3, $2)"
    async with world.worker(app):
        await world.is_in(KIND, "a", "open")
        tomorrow = datetime.now(UTC) + timedelta(days=1)
        async with world.db.transaction():
            await world.db.fetchval(later, KIND, tomorrow, "later", "7")
            for number in range(60):  # more than the relay reads of one entity at a time
                await world.db.fetchval(later, KIND, tomorrow, f"tomorrow-{number}", "8")
            await say(world, "add", 1)
        await world.until(lambda: world.db.fetchval("select count(*) = 61 from perdure.outbox"), "delivered at once")
        soon = await world.db.fetchval(
            "update perdure.outbox set not_before = now() + interval '1 s', due_at = now() + interval '1 s' "
            "where message_id = 'later' returning not_before"
        )
        await world.until(lambda: world.db.fetchval("select count(*) = 60 from perdure.outbox"), "both delivered")
        at = await world.db.fetchval("select delivered_at from perdure.message where message_id = 'later'")
        await say(world, "close")
        assert await heard(world) == [1, 7]
    assert soon <= at < tomorrow


async def test_what_nobody_can_hear_is_rejected_with_the_reason_and_the_rest_goes_on(world: World) -> None:
    await start(world)
    async with world.worker(app):
        await world.is_in(KIND, "a", "open")
        await say(world, "add", "one")
        await say(world, "pair", [1, 2])
        await say(world, "add", 2)
        await world.until(lambda: world.db.fetchval("select count(*) = 2 from perdure.rejected"), "both rejected")
        await world.db.fetchval("select perdure.cancel('listener', 'a', 'ann')")
        assert await world.ended(KIND, "a") == "cancelled"
    reasons = [row["reason"] for row in await world.db.fetch("select reason from perdure.rejected order by seq")]
    assert reasons == [
        "listener: the payload of 'add' does not fit: the whole: Input should be a valid integer, "
        "unable to parse string as an integer",
        "listener: 'pair': its handler takes 2 arguments, and a message carries one",
    ]
    assert json.loads(await world.db.fetchval(HEARD, "a")) == [2]


async def test_cancelled_before_it_is_delivered_it_begins_nothing_also_long_before_its_time(world: World) -> None:
    tomorrow = datetime.now(UTC) + timedelta(days=1)
    await world.db.fetchval("select perdure.start($1, 'a', '{}', not_before => $2)", KIND, tomorrow)
    async with world.worker(app):
        await start(world, "b")
        await world.is_in(KIND, "b", "open")
        assert (await world.client.status(KIND, "a")).waits_for_delivery
        await world.db.fetchval("select perdure.cancel($1, 'a', 'ann', 'not wanted any more')", KIND)
        assert await world.ended(KIND, "a") == "cancelled"
    assert await world.states(KIND, "a") == ["starting", "cancelled"]
    by = await world.db.fetchrow("select made_by, why from perdure.transition where id = 'a' and state = 'cancelled'")
    assert by is not None
    assert tuple(by) == ("ann", "not wanted any more")


async def test_a_cancel_brings_no_start_forward_whose_lifecycle_has_no_such_end(world: World) -> None:
    tomorrow = datetime.now(UTC) + timedelta(days=1)
    await world.db.fetchval("select perdure.start('nod', 'a', '{}', not_before => $1)", tomorrow)
    await world.db.fetchval("select perdure.cancel('nod', 'a', 'ann')")
    async with _relay(world, world.temporal_client) as relay:
        while await relay.once():
            pass
    assert await world.db.fetchval("select ordinal from perdure.message") == 1, "it was looked at"
    assert (await world.client.status("nod", "a")).waits_for_delivery


async def test_a_start_for_later_comes_in_time_and_a_more_urgent_one_first(world: World) -> None:
    soon = datetime.now(UTC) + timedelta(seconds=1.5)
    await world.db.fetchval("select perdure.start($1, 'later', '{}', not_before => $2)", KIND, soon)
    many = "select perdure.start($1, 'p5-' || n, '{}', priority => 5) from generate_series(1, 60) n"
    await world.db.execute(many, KIND)
    await world.db.fetchval("select perdure.start($1, 'urgent', '{}', priority => 1)", KIND)
    async with _relay(world, world.temporal_client) as relay:
        await relay.start()
        await world.until(lambda: _all_delivered(world), "all delivered")
        await relay.stop()
    assert await _started(world, "later") >= soon
    given = await (await world.handle(KIND, "later").describe()).memo_value(CARRIED, type_hint=Carried)
    assert given.started_at == soon, "its time has not passed before it begins"
    urgent = await _started(world, "urgent")
    ordinary = [await _started(world, f"p5-{number}") for number in (51, 60)]
    assert urgent < min(ordinary)  # they did not go in the same batch
    described = await world.handle(KIND, "urgent").describe()
    assert described.raw_description.workflow_execution_info.priority.priority_key == 1


async def test_a_message_that_meets_the_end_leaves_nothing_behind(world: World) -> None:
    """It was committed while the entity was open, and not delivered before its end."""
    await start(world)
    async with world.worker(app):
        await say(world, "close")
        await heard(world)
    await world.db.execute("update perdure.ident set final = null")
    assert await say(world, "add", 1) == "sent"
    await world.db.execute("update perdure.ident set final = 'closed'")
    async with world.worker(app):
        await world.until(lambda: _all_delivered(world), "nothing waits")
    assert await world.db.fetchval("select count(*) from perdure.message") == 0


async def test_a_message_that_both_its_delivery_and_the_end_have_missed_is_deleted_later(world: World) -> None:
    many = "insert into perdure.message (lifecycle, id, generation, message_id, kind, name) "
    many += "select 'listener', 'a', 0, n, 'signal', 'add' from generate_series(1, 6000) n"
    ending = await asyncpg.connect(world.dsn)
    async with _relay(world, world.temporal_client) as relay:
        for entity_id in ("a", "b", "c"):
            await start(world, entity_id)
        await world.until(partial(_delivers_all, world, relay), "started")
        await world.db.execute(many)  # of an open entity
        async with ending.transaction():
            for entity_id in ("b", "c"):
                write = a_move(entity_id, time.time_ns() // 1000, "closed", final=True, lifecycle="listener")
                await ending.fetch(f"select perdure.apply_writes('[{write.model_dump_json(exclude_none=True)}]')")
                assert await say(world, "add", 1, "M", to=entity_id) == "sent"
            await world.db.execute(REJECTED, "c")
            await world.until(partial(_delivers_all, world, relay), "the message is delivered")
        await ending.close()
        left = "select array_agg(id order by id) from perdure.message where message_id = 'M'"
        assert await world.db.fetchval(left) == ["b", "c"]
        relay.presence.looked_at = -math.inf
        for _ in range(2):  # those of the open entity fill a page, and the next page comes with the next note
            relay.presence.noted_at = -math.inf
            await relay.once()
        assert await world.db.fetchval(left) == ["c"], "what was rejected may be looked at"
    seq = await world.db.fetchval("select seq from perdure.rejected")
    await world.db.execute("select perdure.drop_rejected($1, 'ann', 'late')", seq)
    assert await world.db.fetchval("select array_agg(distinct id) from perdure.message") == ["a"]
    assert await world.db.fetchval("select count(*) from perdure.message") == 6000


async def _delivers_all(world: World, relay: Relay) -> bool:
    await relay.once()
    return await _all_delivered(world)


async def test_messages_wait_for_a_workflow_that_is_gone_and_harm_nobody(world: World) -> None:
    await start(world)
    async with world.worker(app):
        await world.is_in(KIND, "a", "open")
        await world.handle(KIND, "a").terminate()
        async with world.db.transaction():
            await say(world, "add", 1, "m1")
            await say(world, "add", 2, "m2")
        await start(world, "b")
        await say(world, "close", to="b")
        assert await heard(world, "b") == []

        async def put_off() -> bool:
            first = "select tries > 1 from perdure.outbox where message_id = 'm1'"
            return bool(await world.db.fetchval(first))

        await world.until(put_off, "put off")
    rows = await world.db.fetch("select error, tries > 1 as tried from perdure.outbox where id = 'a' order by seq")
    assert [(row["error"], row["tried"]) for row in rows] == [
        ("no workflow of listener/a is open in Temporal", True),
        (None, False),  # it waits behind the first
    ]


async def test_while_temporal_is_away_the_backlog_grows_and_no_row_is_blamed_for_it(world: World) -> None:
    await world.db.execute("select perdure.start('nod', n::text, '{}') from generate_series(1, 200) n")
    async with _relay(world, await _gone(world)) as nowhere:
        for _ in range(3):
            with pytest.raises(TemporalUnavailable, match="Temporal accepts nothing"):
                await nowhere.once()
    left = "select count(*) from perdure.outbox where tries = 0"
    assert await world.db.fetchval("select count(*) from perdure.outbox where tries > 0") == 3  # the probes
    assert await world.db.fetchval(f"{left} and not_before <= now()") == 197
    sizes = []
    async with _relay(world, world.temporal_client) as back:
        back.pace.window = nowhere.pace.window
        while waiting := await world.db.fetchval(left):
            await back.once()
            sizes.append(waiting - await world.db.fetchval(left))
    assert sizes[:4] == [1, 2, 4, 8], "it is not run over by what has piled up"
    assert max(sizes) <= BATCH


async def test_a_poison_row_among_five_hundred_harms_none_of_them(world: World) -> None:
    good = "select perdure.start('nod', 'good-' || n, '{}') from generate_series($1::int, $2) n"
    await world.db.execute(good, 1, 250)
    await world.db.execute("select perdure.start('nod', 'bad', '{\"times\": \"many\"}')")
    await world.db.execute(good, 251, 499)
    async with _relay(world, world.temporal_client) as relay:
        await relay.start()
        await world.until(lambda: _all_delivered(world), "nothing waits")
        await relay.stop()
    assert await world.db.fetchval("select string_agg(id, ',') from perdure.rejected") == "bad"
    for number in (1, 250, 251, 499):
        await world.handle("nod", f"good-{number}").describe()


async def test_behind_a_backlog_of_a_hundred_thousand_the_urgent_one_is_done_at_once(world: World) -> None:
    """And what the relay takes at a time stays as small as ever."""
    backlog = """
        with made as (
            insert into perdure.ident (lifecycle, id) select 'nod', n::text from generate_series(1, 100000) n
            returning lifecycle, id
        ), open as (
            insert into perdure.entity (lifecycle, id, generation, state, input)
            select lifecycle, id, 0, 'pending', '{}' from made
        )
        insert into perdure.outbox (lifecycle, id, generation, kind) select lifecycle, id, 0, 'start' from made"""
    await world.db.execute(backlog)
    async with _relay(world, world.temporal_client) as relay:
        await relay.once()
        await world.db.execute("select perdure.start('nod', 'urgent', '{}', priority => 1)")
        await relay.once()
    assert (await world.client.status("nod", "urgent")).waits_for_delivery is False
    assert await world.db.fetchval("select count(*) from perdure.outbox") == 100_000 - BATCH - (BATCH - 1)


@asynccontextmanager
async def _relay(world: World, temporal_client: Client) -> AsyncIterator[Relay]:
    """A relay without a worker, that begins nothing by itself."""
    database = Database(world.dsn, most=2)
    try:
        yield Relay(await database.open(), temporal_client, app, world.config)
    finally:
        await database.close()


async def _gone(world: World) -> Client:
    """A client of a Temporal that has gone away."""
    server = TemporalServer()
    await asyncio.to_thread(server.start)
    at_once = RetryConfig(max_elapsed_time_millis=200)
    client = await Client.connect(
        server.address, data_converter=world.temporal_client.data_converter, retry_config=at_once
    )
    await asyncio.to_thread(server.close)
    return client


async def _started(world: World, entity_id: str) -> datetime:
    started = (await world.handle(KIND, entity_id).describe()).start_time
    assert started is not None
    return started


async def _signals(world: World, entity_id: str) -> int:
    events = (await world.handle(KIND, entity_id).fetch_history()).events
    return sum(each.HasField("workflow_execution_signaled_event_attributes") for each in events)


async def _all_delivered(world: World) -> bool:
    return bool(await world.db.fetchval("select count(*) = 0 from perdure.outbox"))
