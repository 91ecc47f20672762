"""Simulated months: what a step writes now is moved at once into the month that the history has reached.

The functions of the schema take their times from the clock, so the rows are written as always, and then each time that
chooses a partition is moved back by the same distance. The order within a month stays.
"""

from __future__ import annotations

from datetime import date

from tests.integration.retention.months import Connection

FIRST = date(2020, 1, 1)
MONTHS = 6
_BACK = """
    update perdure.{table} set {column} = $1::date + interval '1 day' + ({column} - $2) where {column} >= $2
"""


def month(number: int) -> date:
    """The first day of a month of the history, counted from 0."""
    return date(FIRST.year + number // 12, number % 12 + 1, 1)


async def made(db: Connection) -> None:
    """Make the partitions of all months of a history."""
    for number in range(MONTHS):
        await db.execute("select perdure.make_month($1)", month(number))


async def moved_back(db: Connection, number: int, began: object) -> None:
    """Move what was written since `began` into a month."""
    for table, column in (("transition", "at"), ("finished", "finished_at")):
        await db.execute(_BACK.format(table=table, column=column), month(number), began)


async def emptied(db: Connection) -> None:
    """Nothing has happened yet."""
    tables = ("ident", "entity", "effect", "outbox", "message", "rejected", "behind", "finished", "transition")
    others = ("carried_transition", "kept_effect", "month")
    await db.execute(";".join(f"delete from perdure.{table}" for table in (*tables, *others)))
    for name in await detached(db):
        await db.execute(f"drop table perdure.{name}")
    await made(db)


async def detached(db: Connection) -> list[str]:
    """Tables of months that are half dropped."""
    return [
        row["relname"]
        for row in await db.fetch(
            "select relname from pg_class where relnamespace = 'perdure'::regnamespace and relkind = 'r' "
            "and not relispartition and relname ~ '^(finished|transition)_\\d{4}_\\d{2}$' order by 1"
        )
    ]
