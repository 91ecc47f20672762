"""After a failover to a server whose clock is behind, nothing waits until that clock has caught up."""

from __future__ import annotations

import pytest

from perdure._services.relay import Relay
from perdure._store.sql import shared
from tests.apps.listening import app
from tests.integration.services.test_rows_in_the_way import SIGNAL, START
from tests.world import World

pytestmark = pytest.mark.world(app)

WAITING = "select id || ' ' || kind from perdure.outbox order by 1"
HOURS = "interval '3 hours'"


async def test_rows_of_before_are_delivered_and_only_the_times_of_the_app_are_waited_for(
    world: World, relay: Relay
) -> None:
    for entity_id in ("new", "put off", "later"):
        at = "clock_timestamp() + interval '1 day'" if entity_id == "later" else "null"
        await world.db.execute(f"select perdure.start('listener', $1, '{{}}', not_before => {at})", entity_id)
    await world.db.execute(SIGNAL, "later")
    while await relay.once() or await world.db.fetchval("select count(*) from perdure.outbox") > 2:
        pass
    for entity_id in ("new", "put off"):
        await world.db.execute(SIGNAL, entity_id)
    await world.db.execute(f"""
        update perdure.outbox set created_at = created_at + {HOURS} where id <> 'later';
        update perdure.outbox set not_before = not_before + {HOURS} where id = 'new';
        update perdure.outbox set not_before = clock_timestamp() + {HOURS}, tries = 7, error = 'x' where id = 'put off';
        update perdure.relay set seen_at = seen_at + {HOURS}, began_at = began_at + {HOURS}
    """)
    held = await world.db.fetch("select not_before from perdure.outbox where id = 'later' order by seq")
    relay.presence.looked_at = relay.presence.noted_at = float("-inf")

    async def delivered() -> bool:
        await relay.once()
        return [row[0] for row in await world.db.fetch(WAITING)] == ["later message", "later start"]

    await world.until(delivered, "what is due is delivered")
    assert await world.db.fetch("select not_before from perdure.outbox where id = 'later' order by seq") == held
    assert await world.db.fetchval("select max(seen_at) <= now() and max(began_at) <= now() from perdure.relay")


async def test_the_oldest_row_is_measured_from_the_first_look_on(world: World, relay: Relay) -> None:
    await world.db.execute(START, "a")
    await world.db.execute(f"update perdure.outbox set created_at = created_at + {HOURS}, not_before = 'infinity'")
    await world.db.execute("update perdure.database set stopped = 'a test'")
    async with relay._pool.acquire() as connection:
        await relay.presence.note(connection)

    async def measured() -> bool:
        row = await world.db.fetchrow(shared("gauges_waiting"))
        return row is not None and row["lag"] > 0

    await world.until(measured, "the row is seen to wait")
