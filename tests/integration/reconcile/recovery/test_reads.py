"""A recovery reads of the outbox what belongs to each entity, however many others it has put there before."""

from __future__ import annotations

from perdure._reconcile.recovery.recovery import query
from tests.world import World

MANY = 300
_READ = """
    select seq_tup_read + coalesce(idx_tup_fetch, 0) from pg_stat_xact_user_tables
    where schemaname = 'perdure' and relname = 'outbox'
"""
_OPEN = """
    select perdure.start('waiting', n::text, '{}') from generate_series(1, $1::int) n
"""


async def test_each_entity_costs_the_same_though_postgresql_takes_the_outbox_for_empty(world: World) -> None:
    await world.db.execute(_OPEN, MANY)
    await world.db.execute("delete from perdure.outbox")
    await world.db.execute("vacuum analyze perdure.outbox")
    connection = world.db
    async with connection.transaction():
        before = await connection.fetchval(_READ)
        for first in range(0, MANY, 100):  # as the pages of a recovery
            ids = [str(number) for number in range(first + 1, first + 101)]
            columns = ["waiting"] * 100, ids, [0] * 100, [0] * 100
            begun = await connection.fetch(query("start_these_again"), *columns, "ann", "lost")
            assert len(begun) == 100
        assert await connection.fetchval(_READ) - before < 10 * MANY
