"""A message that a relay is delivering to a workflow which is gone by then is delivered again to the next one."""

from __future__ import annotations

import asyncio
import time

import asyncpg

from perdure._store.postgres import PostgresStore
from perdure._store.sql import queries
from perdure._wire.writes import Move, Write
from tests.deadline import until
from tests.integration.store.stores import Connection

relays = queries("perdure._services.relay")
WAITS = """
    select exists (select from pg_locks l join pg_database d on d.oid = l.database
    where l.locktype = 'advisory' and not l.granted and d.datname = current_database())
"""


async def test_a_delivery_that_is_not_committed_deletes_nothing_that_a_new_start_delivers_again(
    store: PostgresStore, db: Connection, dsn: str
) -> None:
    await db.fetchval("select perdure.start('booking', 'a', '{}')")
    await db.execute("delete from perdure.outbox")
    version = int(time.time() * 1_000_000)
    runs = Write(lifecycle="booking", id="a", generation=0, version=version, workflow_id="w", move=Move(state="doing"))
    await store.write(runs, patience=5)
    await db.fetchval("select perdure.signal('booking', 'a', 'go', null, 'm1')")
    await db.execute("update perdure.message set ordinal = 1")
    relay, again = await asyncpg.connect(dsn), await asyncpg.connect(dsn)
    try:
        delivers = relay.transaction()
        await delivers.start()
        await relay.execute(relays("settings"))
        assert len(await relay.fetch(relays("claim"), 50, ["booking"], "a relay")) == 1
        (row,) = await relay.fetch(relays("lines"), ["booking"], ["a"], 50)
        started = asyncio.create_task(
            again.fetchval("select perdure.start_again('booking', 'a', 0, $1, 'test', 'its workflow is gone')", version)
        )
        await until(lambda: db.fetchval(WAITS), "the start waits for the relay")
        await relay.execute(relays("delivered"), ["booking"], ["a"], [row["seq"]], [None])
        await delivers.commit()
        assert await started is True
    finally:
        await relay.close()
        await again.close()
    outbox = await db.fetch("select kind, message_id from perdure.outbox order by seq")
    assert [tuple(each) for each in outbox] == [("start", None), ("message", "m1")]
