"""`perdure.resolve` and a late outcome of the same effect: whoever is second sees what the first has
committed."""

from __future__ import annotations

import asyncio
import json

import asyncpg
import pytest

from perdure._store.postgres import PostgresStore
from perdure.contracts.outcomes import EffectStatus
from tests.deadline import until
from tests.integration.store.stores import LIFECYCLE, Connection, a_begin, a_move, an_outcome, written

SETTLE = f"select perdure.resolve('{LIFECYCLE}', 'a', null, 'not_done', 'ann', 'they have nothing')"


async def test_a_done_that_is_about_to_be_committed_is_not_overwritten(
    db: Connection, dsn: str, store: PostgresStore
) -> None:
    await written(store, a_begin("a", 1))
    await written(store, an_outcome("a", 1, EffectStatus.IN_DOUBT))
    await written(store, a_move("a", 2, "expired", final=True))
    settling = await asyncpg.connect(dsn)
    late = an_outcome("a", 1, EffectStatus.DONE, receipt=1).model_dump_json(exclude_none=True)
    try:
        async with db.transaction():
            answer = json.loads(await db.fetchval("select perdure.apply_write($1::jsonb)", late))
            assert answer["effect"]["status"] == "done"
            said = asyncio.ensure_future(settling.fetchval(SETTLE))
            waits = "select wait_event_type = 'Lock' from pg_stat_activity where pid = $1"
            await until(lambda: db.fetchval(waits, settling.get_server_pid()), "it waits for the entity")
        with pytest.raises(asyncpg.ObjectNotInPrerequisiteStateError, match="nothing of booking/a is in doubt"):
            await said
    finally:
        await settling.close()
    assert await db.fetchval("select status from perdure.effect") == "done"


async def test_nobody_can_say_not_done_of_an_ended_entity_while_the_call_may_be_under_way(
    db: Connection, store: PostgresStore
) -> None:
    await written(store, a_begin("a", 1, in_flight=3600.0))
    await written(store, a_move("a", 2, "expired", final=True))
    await db.execute("update perdure.effect set deadline = '2100-01-01 00:00:00+00'")
    with pytest.raises(asyncpg.ObjectNotInPrerequisiteStateError, match="under way until 2100-01-01 00:00:01 UTC"):
        await db.fetchval(SETTLE)
    assert await db.fetchval("select status from perdure.effect") != "not_done"
    await db.execute("update perdure.effect set deadline = clock_timestamp()")
    assert await db.fetchval(SETTLE) == "not_done"
