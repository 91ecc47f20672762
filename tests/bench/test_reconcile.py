"""The benchmark of a reconciliation on a few rows: all that is open is looked at, nothing is found, figures are
given."""

from __future__ import annotations

import asyncpg

from bench.reconcile import measure
from perdure.servers.postgres import PostgresServer
from perdure.servers.temporal import TemporalServer


async def test_a_healthy_reconciliation_is_measured_beside_each_number_of_finished_ones(
    postgres: PostgresServer, temporal: TemporalServer
) -> None:
    took = await measure(postgres, temporal, [5, 50], rounds=1, entities=3)
    assert [(count, len(found)) for count, found in took.items()] == [(5, 1), (50, 1)]
    assert all(seconds > 0 for found in took.values() for seconds in found)
    db = await asyncpg.connect(postgres.dsn("rows_50"))
    counts = (
        "select (select count(*) from perdure.entity), (select count(*) from perdure.ident where final is not null)"
    )
    assert tuple(await db.fetchrow(counts) or ()) == (3, 50)
    await db.close()
