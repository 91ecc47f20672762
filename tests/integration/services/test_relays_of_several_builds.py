"""A relay delivers what its code knows, leaves the rest to the others, and rejects only what none of them can read."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import TypeAlias

import asyncpg
import pytest
from pydantic import BaseModel
from temporalio import workflow
from temporalio.service import RPCError

from perdure import App, Lifecycle
from perdure._reconcile.recovery.recovery import recover
from perdure._services.pace import BATCH
from perdure._services.presence import PATIENCE
from perdure._services.relay import Relay
from perdure._store.postgres import Database
from perdure.contracts.sizes import LARGEST
from perdure.logs import FIELDS
from tests.apps.listening import Assent, Nod, Query
from tests.world import World

START = "select perdure.start($1, $2, $3)"
SIGNAL = "select perdure.signal('talk', $1, $2, $3)"
WAITING = (
    "select lifecycle || '/' || id || coalesce(' ' || name, '') from perdure.outbox left join perdure.message "
    + ("using (lifecycle, id, generation, message_id) order by 1")
)


class Wider(BaseModel):
    """What only the newer code can read."""

    times: int | str = 1


class Talk(Lifecycle[Query, Assent]):
    """Hears a number."""

    @workflow.run
    async def run(self, given: Query) -> None:
        """Wait."""
        await self.wait_for(lambda: False)

    @workflow.signal
    def add(self, number: int) -> None:
        """Hear a number."""


class NewerTalk(Lifecycle[Wider, Assent]):
    """Hears a number or a word, and an answer."""

    @workflow.run
    async def run(self, given: Wider) -> None:
        """Wait."""
        await self.wait_for(lambda: False)

    @workflow.signal
    def add(self, number: int | str) -> None:
        """Hear a number."""

    @workflow.signal
    def answer(self) -> None:
        """Hear an answer."""


class WordedTalk(Lifecycle[Wider, Assent]):
    """Hears a word."""

    @workflow.run
    async def run(self, given: Wider) -> None:
        """Wait."""
        await self.wait_for(lambda: False)

    @workflow.signal
    def add(self, word: str) -> None:
        """Hear a word."""


class Large(BaseModel):
    """More than Temporal takes."""

    text: str = "x" * LARGEST


class LargeTalk(Lifecycle[Large, Assent]):
    """Needs much."""

    @workflow.run
    async def run(self, given: Large) -> None:
        """Wait."""
        await self.wait_for(lambda: False)


OLDER = App([workflow.defn(name="talk")(Talk)], [])
LARGE = App([workflow.defn(name="talk")(LargeTalk)], [])
WORDED = App([workflow.defn(name="talk")(WordedTalk)], [])
NEWER = App([workflow.defn(name="talk")(NewerTalk), Nod], [])

pytestmark = pytest.mark.world(NEWER)
Relays: TypeAlias = Callable[[App], Relay]


@pytest.fixture
async def relays(world: World) -> AsyncIterator[Relays]:
    """Makes relays of an app, that make a generation when they are told to; nothing runs what they start."""
    database = Database(world.dsn, most=20)
    pool = await database.open()
    yield lambda app: Relay(pool, world.temporal_client, app, world.config)
    await database.close()


@asynccontextmanager
async def running(*some: Relay) -> AsyncIterator[None]:
    """Relays that run as services."""
    for relay in some:
        await relay.start()
    try:
        yield
    finally:
        for relay in some:
            await relay.stop()


async def waiting(world: World) -> list[str]:
    return [row[0] for row in await world.db.fetch(WAITING)]


async def rejected(world: World) -> list[tuple[str, str]]:
    return [tuple(row) for row in await world.db.fetch("select id, reason from perdure.rejected order by seq")]


async def empty(world: World) -> bool:
    return not await waiting(world)


async def quiet(relays: Sequence[Relay]) -> None:
    """Make generations until no relay has anything to do, each of them having had its turn after every other."""
    for _ in range(len(relays) + 1):
        for relay in relays:
            while await relay.once():
                pass


async def seen(*some: Relay) -> None:
    """Put them on record as relays that run."""
    for relay in some:
        async with relay._pool.acquire() as connection:
            await relay.presence.note(connection)


async def aged(world: World) -> None:
    """What waits and who runs has done so for longer than the patience of a relay."""
    await world.db.execute("update perdure.outbox set created_at = created_at - $1::interval", PATIENCE)
    await world.db.execute("update perdure.relay set began_at = began_at - $1::interval", PATIENCE)


async def test_one_newer_relay_among_nine_delivers_all_that_only_it_knows(world: World, relays: Relays) -> None:
    for number in range(30):
        await world.db.execute(START, "talk", f"talk-{number}", '{"times": "often"}')
        await world.db.execute(SIGNAL, f"talk-{number}", "answer", None)
        await world.db.execute(SIGNAL, f"talk-{number}", "add", '"one"')
        await world.db.execute(START, "nod", f"nod-{number}", "{}")
    await world.db.execute("update perdure.outbox set created_at = created_at - interval '1 day'")  # it was all stopped
    some = [relays(OLDER) for _ in range(9)] + [relays(NEWER)]
    await seen(*some)
    async with running(*some):
        await world.until(lambda: empty(world), "all delivered")
    assert await rejected(world) == []
    assert await world.db.fetchval("select count(*) from perdure.message where delivered_at is not null") == 60


async def test_what_no_code_that_runs_can_read_is_rejected_by_the_last_that_looks(world: World, relays: Relays) -> None:
    await world.db.execute(START, "talk", "a", '{"times": "often"}')
    await world.db.execute(START, "talk", "b", "{}")
    await world.db.execute(SIGNAL, "b", "add", '"one"')
    await world.db.execute(SIGNAL, "b", "add", "2")
    first, second, newer = relays(OLDER), relays(OLDER), relays(NEWER)
    await seen(first, second, newer)
    await quiet([first, second])
    assert await rejected(world) == []
    assert await waiting(world) == ["talk/a", "talk/b add", "talk/b add"], "the newer one may be able to"

    await newer.leave()
    first.presence.looked_at = first.presence.noted_at = float("-inf")
    await quiet([first, second])
    assert await waiting(world) == []
    assert [(entity_id, reason.partition(": Input")[0]) for entity_id, reason in await rejected(world)] == [
        ("a", "talk: the input does not fit: times"),
        ("b", "talk: the payload of 'add' does not fit: the whole"),
    ]
    await world.db.execute("select perdure.retry_rejected(seq, 'ann') from perdure.rejected")
    await quiet([newer])
    assert (await waiting(world), await rejected(world)) == ([], [])


async def test_what_no_relay_knows_waits_and_holds_up_nothing_before_it(
    world: World, relays: Relays, caplog: pytest.LogCaptureFixture
) -> None:
    for number in range(BATCH):
        await world.db.execute(START, "unheard-of", str(number), "{}")
    await world.db.execute(START, "talk", "a", "{}")
    for name, payload in (("add", "1"), ("ad", "2"), ("add", "3")):
        await world.db.execute(SIGNAL, "a", name, payload)
    await world.db.execute(START, "talk", "b", "{}")
    relay = relays(OLDER)
    with caplog.at_level(logging.WARNING, "perdure.relay"):
        await quiet([relay])
    assert await rejected(world) == []
    unknown = sorted(f"unheard-of/{number}" for number in range(BATCH))
    assert await waiting(world) == ["talk/a ad", "talk/a add", *unknown]
    assert {record.getMessage(): getattr(record, FIELDS)["rows"] for record in caplog.records} == {
        "rows wait: no running worker has a handler of talk for the signal 'ad'; did you mean 'add'?": 1,
        "rows wait: no running worker has a lifecycle named 'unheard-of'": BATCH,
    }
    why = await world.db.fetch("select distinct error from perdure.outbox where error is not null order by 1")
    assert [row["error"] for row in why] == [
        "no running worker has a handler of talk for the signal 'ad'; did you mean 'add'?",
        "no running worker has a lifecycle named 'unheard-of'",
    ]
    assert await world.db.fetchval("select sum(tries) from perdure.outbox") == 0

    reject = "select sum(perdure.reject_unknown('0', $1, id)) from perdure.ident where lifecycle = $1"
    other = await asyncpg.connect(world.dsn)
    async with other.transaction():
        await other.execute("select pg_advisory_xact_lock(hashtextextended('talk/a', x'70657264'::bigint))")
        assert await world.db.fetchval(reject, "talk") == 0, "a relay delivers to it now"
    await other.close()
    for name in ("unheard-of", "talk"):
        await world.db.execute(reject, name)
    await quiet([relay])
    assert await waiting(world) == []
    assert len(await rejected(world)) == BATCH + 1
    seen = await world.client.status("talk", "a")
    assert seen.rejected == "no worker has a handler of talk for the signal 'ad'; did you mean 'add'?"


@pytest.mark.parametrize("table", ["entity", "outbox"])
async def test_what_another_session_holds_is_not_waited_for_when_unknown_names_are_rejected(
    world: World, relays: Relays, table: str
) -> None:
    for entity_id in ("held", "free"):
        await world.db.execute(START, "unheard-of", entity_id, "{}")
    relay = relays(OLDER)
    await relay.once()
    await aged(world)
    other = await asyncpg.connect(world.dsn)
    async with other.transaction():
        await other.execute(f"select from perdure.{table} where id = 'held' for update")
        relay.presence.looked_at = relay.presence.noted_at = float("-inf")
        await relay.once()
        assert [entity_id for entity_id, _ in await rejected(world)] == ["free"]
    await other.close()
    relay.presence.looked_at = relay.presence.noted_at = float("-inf")
    await relay.once()
    assert [entity_id for entity_id, _ in await rejected(world)] == ["held", "free"]


@pytest.mark.parametrize(
    ("name", "guess"), [("tlak", None), ("talks", "talk"), ("tal", "talk"), ("order", None), ("t", None)]
)
async def test_the_reason_names_the_lifecycle_that_was_probably_meant(
    world: World, relays: Relays, name: str, guess: str | None
) -> None:
    await world.db.execute(START, name, "a", "{}")
    await quiet([relays(OLDER)])
    why = await world.db.fetchval("select error from perdure.outbox")
    about = f"no running worker has a lifecycle named '{name}'"
    assert why == (f"{about}; did you mean '{guess}'?" if guess else about)


@pytest.mark.parametrize("signal", [None, "paid"])
async def test_a_name_that_only_a_stopped_worker_had_is_not_the_one_that_was_meant(
    world: World, signal: str | None
) -> None:
    """A lifecycle was renamed, and the last worker of the old build has stopped."""
    relays = "insert into perdure.relay (id, lifecycles, signals, seen_at) values ($1, $2, $3, now() - $4::interval)"
    await world.db.execute(relays, "old", ["order"], ["order.paid"], timedelta(minutes=5))
    await world.db.execute(relays, "new", ["orders"], ["order.pad"], timedelta(0))
    name = await world.db.fetchval("select perdure.name_unknown('order', $1)", signal)
    assert name.endswith("; did you mean 'orders'?" if signal is None else "; did you mean 'pad'?")


@pytest.mark.parametrize("how", ["is killed", "stops"])
async def test_a_name_is_given_up_only_when_no_relay_has_known_it_for_an_hour(
    world: World, relays: Relays, how: str
) -> None:
    relay, newer = relays(OLDER), relays(NEWER)
    for name, entity_id in (("nod", "a"), ("unheard-of", "b")):
        await world.db.execute(START, name, entity_id, "{}")
    later = "select perdure.start('unheard-of', 'later', '{}', not_before => clock_timestamp() + interval '1 day')"
    await world.db.execute(later)
    await quiet([relay])
    await seen(newer)
    if how == "stops":
        await newer.leave()
    else:
        await world.db.execute(
            "update perdure.relay set seen_at = seen_at - interval '50 min' where id = $1", newer.presence.id
        )
    await aged(world)
    relay.presence.looked_at = relay.presence.noted_at = float("-inf")
    await relay.once()
    assert await rejected(world) == [("b", "no worker has a lifecycle named 'unheard-of'")]

    # What was due long ago, and is seen for the first time, waits as long.
    await world.db.execute("delete from perdure.relay")
    relay.presence.looked_at = relay.presence.noted_at = float("-inf")
    await relay.once()
    assert await waiting(world) == ["nod/a", "unheard-of/later"]

    await aged(world)
    relay.presence.looked_at = relay.presence.noted_at = float("-inf")
    await relay.once()
    assert await waiting(world) == ["unheard-of/later"], "that one is not due yet"
    assert (await world.client.status("nod", "a")).attention == "rejected: no worker has a lifecycle named 'nod'"
    await world.db.execute("select perdure.retry_rejected(seq, 'ann') from perdure.rejected where lifecycle = 'nod'")
    await quiet([newer])
    assert await waiting(world) == ["unheard-of/later"]
    assert await world.db.fetch("select * from perdure.unknown_names()") == []


async def test_what_all_that_are_left_have_declined_is_looked_at_again(world: World, relays: Relays) -> None:
    older, newer = relays(OLDER), relays(NEWER)
    await seen(newer)
    await world.db.execute(START, "talk", "a", '{"times": "often"}')
    await quiet([older])
    assert await waiting(world) == ["talk/a"]
    await world.db.execute(
        "update perdure.relay set seen_at = seen_at - interval '61 s' where id = $1", newer.presence.id
    )
    older.presence.looked_at = older.presence.noted_at = float("-inf")
    await quiet([older])
    assert [entity_id for entity_id, _ in await rejected(world)] == ["a"]


async def test_what_two_recover_at_once_beside_a_relay_of_an_older_build_goes_on_once(
    world: World, relays: Relays
) -> None:
    ids = [str(number) for number in range(20)]
    for each in ids:
        await world.db.execute(START, "talk", each, '{"times": "often"}')
        await world.db.execute(SIGNAL, each, "add", '"one"')
    newer = relays(NEWER)
    await quiet([newer])
    world.config = world.config.model_copy(update={"scope": f"{world.scope}-anew"})  # in which Temporal has nothing
    older, newer, world.scope = relays(OLDER), relays(NEWER), f"{world.scope}-anew"
    await seen(older, newer)
    async with running(older):
        both = await asyncio.gather(
            *(recover(newer._pool, world.temporal_client, world.scope, by=by, why="lost") for by in ("ann", "bob"))
        )
        for each in ids:
            await world.db.execute(SIGNAL, each, "answer", None)
        async with running(newer):
            await world.until(lambda: empty(world), "all delivered")
    assert (sum(each.started for each in both), await rejected(world)) == (len(ids), [])
    for each in ids:
        history = await world.handle("talk", each).fetch_history()
        signals = [event for event in history.events if event.HasField("workflow_execution_signaled_event_attributes")]
        assert len(signals) == 2


async def test_an_input_that_is_too_large_with_its_defaults_is_rejected(world: World, relays: Relays) -> None:
    await world.db.execute(START, "talk", "a", "{}")
    await quiet([relays(LARGE)])
    [(_, reason)] = await rejected(world)
    assert f"Temporal accepts {LARGEST}" in reason


async def test_what_waits_behind_a_declined_row_is_read_by_every_relay_when_that_is_delivered(
    world: World, relays: Relays
) -> None:
    older, worded = relays(OLDER), relays(WORDED)
    await seen(older, worded)
    await world.db.execute(START, "talk", "a", '{"times": "often"}')
    await world.db.execute(SIGNAL, "a", "add", "1")
    await quiet([older, worded])
    assert (await waiting(world), await rejected(world)) == ([], [])


async def test_a_message_for_an_entity_that_is_over_is_dropped_whoever_knows_its_name(
    world: World, relays: Relays
) -> None:
    relay = relays(OLDER)
    for each in ("finished", "restarted"):
        await world.db.execute(START, "talk", each, "{}")
        await world.db.execute(SIGNAL, each, "ad", "1")
    await world.db.execute("update perdure.ident set final = 'nodded' where id = 'finished'")
    for table in ("ident", "entity"):
        await world.db.execute(f"update perdure.{table} set generation = 1 where id = 'restarted'")
    await quiet([relay])
    assert (await waiting(world), await rejected(world)) == ([], [])
    for each in ("finished", "restarted"):
        with pytest.raises(RPCError, match="not found"):
            await world.handle("talk", each).describe()
    assert (await world.client.status("talk", "restarted")).state == "starting", (
        "the start was of the generation before"
    )
