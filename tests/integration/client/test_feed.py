"""A follower of the feed that stores only a position misses no transition, and gets each entity's in order."""

from __future__ import annotations

import asyncio
import json
import random
import re
import secrets
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import TypeAlias

import asyncpg
import pytest

from perdure import Client
from perdure.client import Event
from perdure.errors import DatabaseUnavailable, InvalidPosition
from perdure.servers.postgres import PostgresServer
from tests.apps.bodies import app
from tests.apps.contracts import Booking
from tests.deadline import in_time
from tests.world import World

Connection: TypeAlias = "asyncpg.Connection[asyncpg.Record]"
Seen: TypeAlias = "list[tuple[str, int, int]]"
"""Id, generation and version of each event, in the order in which they came."""

FEED = "select * from perdure.feed($1, $2)"
BY_SEQUENCE = (
    "select seq::text as position, * from perdure.transition where seq > $1::text::bigint order by seq limit $2"
)
"""How one would do it at first."""


@pytest.fixture
def dsn(postgres: PostgresServer, database: str) -> str:
    """URL of the test's own database."""
    return postgres.dsn(database)


@pytest.fixture
async def db(dsn: str) -> AsyncIterator[Connection]:
    """A connection to it."""
    async with connected(dsn) as connection:
        yield connection


@asynccontextmanager
async def connected(dsn: str) -> AsyncIterator[Connection]:
    """One more connection."""
    connection = await asyncpg.connect(dsn)
    try:
        yield connection
    finally:
        await connection.close()


async def start(db: Connection, *ids: object) -> None:
    """Start entities in one statement."""
    await db.execute(
        "select perdure.start('booking', id, '{}') from unnest($1::text[]) id", [str(each) for each in ids]
    )


async def ids(db: Connection, after: str | None = None, most: int = 100) -> list[str]:
    """Ids of the events after a position."""
    return [row["id"] for row in await db.fetch(FEED, after, most)]


async def end_of(db: Connection) -> str:
    """The position of the end of the feed."""
    return str(await db.fetchval("select perdure.feed_position()"))


class Crowd:
    """Fifty writers of few entities, whose transactions take their time to commit, and followers beside them."""

    ENTITIES, WRITERS, TRANSACTIONS = 15, 50, 12

    def __init__(self, dsn: str) -> None:
        self.dsn = dsn
        self.over = asyncio.Event()

    async def write(self) -> None:
        """Let them all write until they are done."""
        await asyncio.gather(*(self._writer(random.Random(number)) for number in range(self.WRITERS)))
        self.over.set()

    async def follow(self, sql: str, begin: str | None, seed: int, *, in_its_own_transaction: bool = False) -> Seen:
        """All that a follower sees that dies in the middle of every page, until nothing comes any more."""
        luck, after = random.Random(seed), begin
        seen: Seen = []
        async with connected(self.dsn) as db:
            while True:
                over = self.over.is_set()
                rows = await self._look(db, sql, after, luck.choice([1, 2, 7, 50, 500]), luck, in_its_own_transaction)
                if not rows and over:
                    return seen
                dealt_with = rows[: luck.randint(1, len(rows))] if rows else []
                seen += [(row["id"], row["generation"], row["version"]) for row in dealt_with]
                after = dealt_with[-1]["position"] if dealt_with else after
                await asyncio.sleep(luck.random() * 0.01)

    async def _look(
        self, db: Connection, sql: str, after: str | None, most: int, luck: random.Random, in_transaction: bool
    ) -> list[asyncpg.Record]:
        if not in_transaction:
            return await db.fetch(sql, after, most)
        async with db.transaction(isolation=luck.choice(["read_committed", "repeatable_read"])):
            await db.execute("select pg_current_xact_id()")  # as one that has locked its own row before
            return await db.fetch(sql, after, most)

    async def _writer(self, luck: random.Random) -> None:
        async with connected(self.dsn) as db:
            for _ in range(self.TRANSACTIONS):
                change = db.transaction()
                await change.start()
                try:
                    for _ in range(luck.randint(1, 3)):
                        await self._write(db, f"e{luck.randrange(self.ENTITIES)}", luck)
                    await asyncio.sleep(luck.random() ** 3 * 0.08)
                except (asyncpg.DeadlockDetectedError, asyncpg.ObjectNotInPrerequisiteStateError):
                    await change.rollback()  # two that met: of another's entity, or to restart the same one
                else:
                    await (change.rollback if luck.random() < 0.1 else change.commit)()

    async def _write(self, db: Connection, entity_id: str, luck: random.Random) -> None:
        if luck.random() < 0.1:
            return await start(db, f"{entity_id}-{secrets.token_hex(4)}")
        row = await db.fetchrow("select generation, version, final from perdure.ident where id = $1", entity_id)
        if row is None:
            await start(db, entity_id)
        elif row["final"] is not None:
            await db.execute("select perdure.restart('booking', $1, 'ann', 'again')", entity_id)
        else:
            end = luck.random() < 0.1
            await write(
                db, entity_id, row["generation"], *range(row["version"] + 1, row["version"] + 2 + (not end)), end=end
            )


async def write(db: Connection, entity_id: str, generation: int, *versions: int, end: bool = False) -> None:
    """Move an entity, in one batch, as a worker does."""
    moves = [
        {"lifecycle": "booking", "id": entity_id, "generation": generation, "version": version, "workflow_id": "w"}
        | {"move": {"state": f"s{version}", "final": end}}
        for version in versions
    ]
    await db.fetch("select perdure.apply_writes($1::jsonb)", json.dumps(moves))


def out_of_order(seen: Seen) -> int:
    """How many events came after a later one of the same entity."""
    last: dict[str, tuple[int, int]] = {}
    wrong = 0
    for entity_id, *place in seen:
        wrong += tuple(place) < last.get(entity_id, (-1, -1))
        last[entity_id] = (place[0], place[1])
    return wrong


async def test_no_transition_of_fifty_writers_is_missed_and_each_entitys_are_in_order(dsn: str, db: Connection) -> None:
    crowd = Crowd(dsn)
    *followers, by_sequence, _ = await asyncio.gather(
        crowd.follow(FEED, None, 1),
        crowd.follow(FEED, await end_of(db), 2),
        crowd.follow(FEED, None, 3, in_its_own_transaction=True),
        crowd.follow(BY_SEQUENCE, "0", 4),
        crowd.write(),
    )
    rows = await db.fetch("select id, generation, version from perdure.transition")
    everything = {(row["id"], row["generation"], row["version"]) for row in rows}
    for seen in followers:
        assert set(seen) == everything
        assert len(seen) == len(everything), "each once"
        assert out_of_order(seen) == 0
    assert set(by_sequence) < everything, "these writers are no match for a simple cursor"


async def test_a_transaction_that_stays_open_holds_up_nobody_elses_events(
    postgres: PostgresServer, dsn: str, db: Connection
) -> None:
    async with connected(dsn) as here, connected(postgres.dsn()) as elsewhere:
        await here.execute("begin")
        await elsewhere.execute("begin; select pg_current_xact_id()")
        await start(here, "late")
        await start(db, "a", "b")
        first = await db.fetch(FEED, None, 100)
        assert [row["id"] for row in first] == ["a", "b"]
        await start(db, "c")
        assert await ids(db, first[-1]["position"]) == ["c"]
        await here.execute("commit")
        assert await ids(db, first[-1]["position"]) == ["late", "c"]
        assert await ids(db, first[0]["position"]) == ["b"], "the stretch that it was in goes first"


async def test_an_open_transaction_does_not_cause_old_events_to_be_read_again(dsn: str, db: Connection) -> None:
    read = "select sum(idx_tup_fetch + seq_tup_read) from pg_stat_xact_user_tables where relname like 'transition%'"
    async with connected(dsn) as open_for_hours:
        await open_for_hours.execute("begin; select pg_current_xact_id()")
        await start(db, *range(3000))
        await db.execute("analyze perdure.transition")
        after = await end_of(db)
        await start(db, "new")
        async with db.transaction():
            before = await db.fetchval(read)
            assert await ids(db, after) == ["new"]
            assert await db.fetchval(read) - before < 10
        await open_for_hours.execute("rollback")


async def test_a_follower_goes_on_after_any_row_of_a_page(db: Connection) -> None:
    for number in range(7):
        await start(db, number)
    rows = await db.fetch(FEED, None, 5)
    assert [row["id"] for row in rows] == ["0", "1", "2", "3", "4"]
    await start(db, "later")
    for number, row in enumerate(rows):
        rest, after = [], row["position"]
        while page := await db.fetch(FEED, after, 3):
            rest += [each["id"] for each in page]
            after = page[-1]["position"]
        assert rest == [*(str(each) for each in range(number + 1, 7)), "later"]


async def test_events_of_the_followers_own_transaction_come_after_its_commit(dsn: str, db: Connection) -> None:
    async with db.transaction():
        await start(db, "before")
        async with connected(dsn) as other:
            await start(other, "other")
        page = await db.fetch(FEED, None, 100)
        assert [row["id"] for row in page] == ["other"]
        await start(db, "after")
    assert await ids(db, page[-1]["position"]) == ["before", "after"]


async def test_the_end_is_a_position_and_so_is_a_time(db: Connection) -> None:
    await start(db, "old")
    await db.execute("update perdure.transition set at = at - interval '1 hour'")
    end = await end_of(db)
    await start(db, "new")
    assert await ids(db, end) == ["new"]
    since = "select perdure.feed_position(clock_timestamp() - $1::interval)"
    assert await ids(db, await db.fetchval(since, timedelta(minutes=1))) == ["new"]
    assert await ids(db, await db.fetchval(since, timedelta(hours=2))) == ["old", "new"]
    assert await ids(db, await db.fetchval(since, timedelta(hours=-1))) == []


async def test_a_position_of_a_copy_or_of_what_was_put_back_is_refused_with_the_way_out(
    postgres: PostgresServer, dsn: str, db: Connection
) -> None:
    await start(db, "a", "b")
    after = (await db.fetch(FEED, None, 1))[0]["position"]
    copy = "copy_" + secrets.token_hex(4)
    name = await db.fetchval("select current_database()")
    await db.close()
    async with connected(postgres.dsn()) as admin:
        await admin.execute(f"create database {copy} template {name}")
        async with connected(postgres.dsn(copy)) as there:
            await refused(there, after)
            assert await ids(there) == ["a", "b"], "a copy's own feed begins at its beginning"
        await admin.execute(f"drop database {copy}")
    async with connected(dsn) as here:
        assert await ids(here, after) == ["b"]
        origin, run, rest = re.split(r"[./]", after, maxsplit=2)
        await refused(here, f"{origin[::-1]}.{run}/{rest}")
        before, checksum = after.rsplit("/", 1)
        elsewhere = re.sub(r"\.\w+/", ".00000000/", before, count=1)
        assert await ids(here, f"{elsewhere}/{checksum}") == ["b"], "the server was started again"
        await refused(here, f"{elsewhere}/7.{checksum.partition('.')[2]}")  # and has not what was read


async def refused(db: Connection, after: str) -> None:
    """It is, and the hint says how to go on."""
    with pytest.raises(asyncpg.ObjectNotInPrerequisiteStateError, match="does not hold here") as error:
        await db.fetch(FEED, after, 10)
    assert "feed_position(since => " in str(error.value.hint)


PLACE = "0123456789ab.01234567"


@pytest.mark.parametrize(
    "after",
    [
        *("", "x", "12", f"{PLACE}/5:4:/5:5:/0-/1.0.0", f"{PLACE}/0:0:/5:5:/0-/1.0.0", f"{PLACE}/1:9:/1:9:/x"),
        *(f"{PLACE}/1:9:/1:9:/0-/9999999999999999999.0.0", f"{PLACE}/1:1:/99999999999999999999:5:/0-/1.0.0"),
    ],
)
async def test_an_invalid_position_is_refused_with_a_hint(db: Connection, after: str) -> None:
    with pytest.raises(asyncpg.InvalidParameterValueError, match="is not a position") as error:
        await db.fetch(FEED, after, 10)
    assert "the last row that you have handled" in str(error.value.hint)


@pytest.mark.parametrize("most", [0, -1, 10001, None])
async def test_a_page_has_one_to_ten_thousand_rows(db: Connection, most: int | None) -> None:
    with pytest.raises(asyncpg.InvalidParameterValueError, match="most can not be"):
        await db.fetch(FEED, None, most)


async def test_events_of_a_dump_from_another_cluster_come_first_and_once(db: Connection) -> None:
    await start(db, "a", "b", "c")
    # As `pg_restore` leaves it: the numbers of that cluster's transactions may be beyond all of this one's.
    await db.execute("update perdure.transition set xid = '8000000000' where id <> 'b'")
    await db.execute("update perdure.feed_origin set system_identifier = 1")
    page = await db.fetch(FEED, None, 2)
    await start(db, "d")
    rest = await db.fetch(FEED, page[-1]["position"], 10)
    assert [row["id"] for row in (*page, *rest)] == ["a", "b", "c"]
    assert await ids(db, rest[-1]["position"]) == ["d"]
    assert await ids(db, await end_of(db)) == []


async def test_a_role_follows_that_may_execute_the_feed_and_nothing_else(db: Connection) -> None:
    role = "follower_" + secrets.token_hex(4)
    await start(db, "a")
    await db.execute(f"create role {role}")
    await db.execute(f"grant usage on schema perdure to {role}")
    await db.execute(f"grant execute on function perdure.feed, perdure.feed_any, perdure.feed_position to {role}")
    await db.execute(f"set role {role}")
    [row] = await db.fetch(FEED, None, 10)
    assert await ids(db, row["position"]) == []
    await end_of(db)
    with pytest.raises(asyncpg.InsufficientPrivilegeError):
        await db.execute("select * from perdure.transition")
    await db.execute(f"reset role; drop owned by {role}; drop role {role}")


async def test_the_documented_follower_deals_with_each_event_once_in_one_transaction_with_its_position(
    db: Connection,
) -> None:
    page = (Path(__file__).parents[3] / "docs" / "feed.md").read_text()
    [block] = [sql for sql in re.findall(r"^```sql\n(.*?)^```$", page, re.MULTILINE | re.DOTALL) if "begin;" in sql]
    setup, step = block.split("begin;")
    await db.execute(setup)
    await start(db, "a", "b")
    await write(db, "a", 0, 1, 2)
    await db.execute("begin;" + step)
    seen = "select array_agg(id || ' ' || state order by id) from orders_seen"
    assert await db.fetchval(seen) == ["a s2", "b starting"]
    after = await db.fetchval("select position from follower")
    assert await ids(db, after) == []
    await db.execute("begin;" + step)
    assert await db.fetchval("select position from follower") == after
    await start(db, "c")
    await db.execute("begin;" + step.replace("commit;", "rollback;"))
    assert await db.fetchval(seen) == ["a s2", "b starting"]
    await db.execute("begin;" + step)
    assert await db.fetchval(seen) == ["a s2", "b starting", "c starting"]


async def test_the_client_follows_a_lifecycle_to_its_end_and_says_who_did_what(world: World) -> None:
    after = await world.client.feed_position()
    async with world.worker(app):
        await world.client.start("escalate", "a", Booking())
        await world.ended("escalate", "a")
    events = [event async for event in world.client.feed(after, wait=False)]
    assert [(event.lifecycle, event.id, event.state) for event in events] == [
        ("escalate", "a", "starting"),
        ("escalate", "a", "doing"),
        ("escalate", "a", "done"),
    ]
    assert events[-1].why == "ticket 1"
    assert [event.at for event in events] == sorted(event.at for event in events)
    assert [event async for event in world.client.feed(events[0].position, wait=False)] == list(events[1:])


async def test_the_client_waits_for_what_comes_through_a_restart_of_the_database(world: World) -> None:
    feed = world.client.feed()
    await start(world.db, "a")
    assert (await anext(feed)).id == "a"
    waits = asyncio.ensure_future(anext(feed))
    await asyncio.to_thread(world.postgres.stop)
    await asyncio.wait({waits}, timeout=0.3)
    assert not waits.done()
    await world.servers_are_back()
    await start(world.db, "b")
    assert (await in_time(waits)).id == "b"
    await feed.aclose()


async def test_the_client_says_how_to_begin_again_where_a_position_does_not_hold(world: World) -> None:
    for after, said in (
        ("x", "is not a position"),
        ("x\0", "0x00"),
        ("a" * 12 + ".00000000/1:1:/5:5:/0-/1.0.0", "feed_position"),
    ):
        with pytest.raises(InvalidPosition, match=said):
            await anext(world.client.feed(after))


async def test_a_lock_on_the_feed_is_waited_for_and_ends_no_position(world: World) -> None:
    """As while a month is dropped, or the schema is migrated."""
    async with world.db.transaction():
        await world.db.execute("lock table perdure.transition in access exclusive mode")
        following = asyncio.create_task(anext(world.client.feed()))
        with pytest.raises(DatabaseUnavailable, match="another transaction"):
            await anext(world.client.feed(wait=False))
        assert not following.done()
    await world.client.start("lookup", "a", Booking())
    assert (await in_time(following)).id == "a"


async def test_the_client_reads_a_long_stretch_page_by_page(dsn: str, db: Connection) -> None:
    await start(db, *range(1200))
    pool = await asyncpg.create_pool(dsn, min_size=1, max_size=1)
    seen: Sequence[Event] = [event async for event in Client(pool).feed(wait=False)]
    assert [event.id for event in seen] == [str(each) for each in range(1200)]
    await pool.close()


async def test_what_a_person_does_takes_no_version_of_a_write_or_of_a_restart(db: Connection) -> None:
    """A follower may ignore each version that is not newer than the last one."""
    await start(db, "a")

    async def write(version: int, state: str, *, final: bool = False) -> None:
        order = {"lifecycle": "booking", "id": "a", "generation": 0, "version": version, "workflow_id": "booking/a"}
        order["move"] = {"state": state, "final": final}
        answer = json.loads(await db.fetchval("select * from perdure.apply_writes($1)", json.dumps([order])))
        assert (answer["gate"], answer["version"], answer["state"]) == ("open", version, state)

    async def note() -> None:
        await db.execute(
            "select perdure.note('booking', 'a', 'ann', 'retry'), perdure.note('booking', 'a', 'ann', 'look')"
        )

    await write(1_000_000, "sending")
    await note()
    await write(1_000_001, "sent")  # the clock of a run stands still during a workflow task
    await write(1_000_002, "done", final=True)
    await note()
    assert await db.fetchval("select perdure.restart('booking', 'a', 'ann', 'once more')") == 1
    await note()
    rows = await db.fetch(FEED, None, 100)
    assert [row["state"] for row in rows if row["made_by"] is None] == ["starting", "sending", "sent", "done"]
    versions = [row["version"] for row in rows]
    assert versions == sorted(set(versions))
    assert [row["generation"] for row in rows] == [0] * 8 + [1] * 3
