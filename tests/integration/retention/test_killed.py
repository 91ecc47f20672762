"""A drop that is killed at any instant is finished by the next one, and nothing is lost or left."""

from __future__ import annotations

import asyncio
import sys
from datetime import date

from perdure._retention.dropping import drop
from perdure._retention.months import every_month
from perdure._retention.working import working
from tests.deadline import in_time
from tests.integration.retention.months import Connection, finished, key_of, keys, still_open

MONTHS = [date(2010 + number // 12, number % 12 + 1, 1) for number in range(36)]
CARRIED = "select id, count(*) from perdure.carried_transition group by id order by id"


async def test_a_drop_that_was_killed_at_any_statement_is_finished_by_the_next_one(dsn: str, db: Connection) -> None:
    names = [f"{month:%Y-%m}" for month in MONTHS]
    async with db.transaction():
        for first, name in zip(MONTHS, names, strict=True):
            await finished(db, f"over-{name}", first)
            await finished(db, f"doubt-{name}", first, effect="in_doubt")
            await still_open(db, f"parked-{name}", first)
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tests.integration.retention.killed", dsn, *names), stdout=asyncio.subprocess.PIPE
    )
    said, _ = await in_time(process.communicate())
    left = [month for month in await every_month(db) if month.tables and month.first in MONTHS]
    assert 25 <= len(left) <= int(said) < len(MONTHS), "the last ones have too few statements to be killed"
    async with working(dsn) as connection:
        for month in left:
            gone = await drop(connection, month, lambda _: None, without_export=True)
            assert gone.carried == ((f"order/parked-{month}", 2),)
            assert gone.doubts == (key_of(f"doubt-{month}"),)
    gone_for_good = [each.first for each in await every_month(db) if each.dropped_at and not each.tables]
    assert gone_for_good == MONTHS
    assert await keys(db) == [key_of(f"doubt-{name}") for name in names]
    assert [tuple(row) for row in await db.fetch(CARRIED)] == [(f"parked-{name}", 2) for name in names]
