"""`perdure archive drop` removes a whole month from the database, without blocking writers.

Each step can be repeated, and finds the results of earlier steps, so a drop can be interrupted anywhere and run again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

import asyncpg

from perdure._retention.months import Month, now
from perdure._retention.working import briefly, step
from perdure._store.schema import Connection
from perdure._store.sql import queries
from perdure.errors import NotNow

query = queries(__name__)

BATCH = 500
"""Entities whose effects are deleted in one transaction."""

_ATTEMPTS = 10

Report = Callable[[str], None]


class ExportIncomplete(NotNow):
    """The files do not hold the month: rows were added since, or a file is gone. The export must be repeated."""


@dataclass(frozen=True, slots=True)
class Dropped:
    """The result of dropping a month.

    Attributes:
        carried: open entities whose transitions of that month were kept, and the number of these.
        doubts: keys of effects in doubt, whose rows stay until they are settled.
    """

    month: str
    carried: tuple[tuple[str, int], ...]
    doubts: tuple[str, ...]


async def check_droppable(connection: Connection, month: Month, retention: int | None, *, without_export: bool) -> None:
    """Check that a month may be dropped.

    Raises:
        NotNow: the month is not over, must still be kept, or was not exported.
        ExportIncomplete: an exported file is not here, or not as it was written.
    """
    at = await now(connection)
    if at < month.over_at():
        raise NotNow(f"{month} is not over: it can be dropped from {month.over_at():%Y-%m-%d %H:%M} UTC on")
    if at < (until := month.kept_until(retention)):
        raise NotNow(f"{month} is kept until {until:%Y-%m-%d %H:%M} UTC: PERDURE_RETENTION is {retention} months")
    if month.exported_at is None and not without_export:
        raise NotNow(f"{month} was not exported: `perdure archive export {month}` first, or --without-export")
    if not without_export:
        await _check_files(month)


async def drop(connection: Connection, month: Month, report: Report, *, without_export: bool) -> Dropped:
    """Drop a month: its tables, the effects of entities that finished in it, and other rows about those.

    Args:
        report: called with a line about each step.

    Raises:
        ExportIncomplete: rows were added to the month since its export, or a file is gone or damaged. The rows are
            still there.
        NotNow: another session holds the tables of the month.
    """
    await _mark_dropping(connection, month)
    await _carry_over(connection, month)
    for part, table in month.tables.items():
        report(f"detaching perdure.{table.name}: waits for transactions that are open now")
        await _detach(connection, part, table.name)
    await _mark_dropping(connection, month)
    await _carry_over(connection, month)
    if not without_export:
        await _check_rows(connection, month)
        await _check_files(month)
    await _clear(connection, month)
    await _drop_tables(connection, month)
    await tidy(connection)
    return await _summary(connection, month)


async def tidy(connection: Connection) -> None:
    """Delete rows that outlived their month: doubts that were settled since, transitions of ended entities."""
    gone = BATCH
    while gone >= BATCH:
        async with step(connection):
            gone = int((await connection.execute(query("kept_effects"), BATCH)).split()[-1])
    async with step(connection):
        await connection.execute(query("carried_over"))


async def _mark_dropping(connection: Connection, month: Month) -> None:
    """Mark the month as dropped, so nobody makes it again, and the feed can tell its followers. Then detach it once
    more: a transaction that was open for a day may have written into it."""
    await briefly(connection, lambda: connection.execute("select perdure.note_dropping($1)", month.first))


async def _carry_over(connection: Connection, month: Month) -> None:
    if "transition" not in month.tables:
        return
    sql = query("month_carry").format(transition=month.tables["transition"].name)
    last: tuple[str, str] | None = ("", "")
    while last is not None:
        async with step(connection):
            row = await connection.fetchrow(sql, *last, BATCH)
        last = None if row is None else (row["lifecycle"], row["id"])


async def _detach(connection: Connection, part: str, name: str) -> None:
    """Detach concurrently. A plain detach, or a drop, would stall every writer behind one reader.

    An interrupted detach is finished first, also another client's. PostgreSQL allows one at a time for each parent, and
    the server may still execute that of a client that is gone.
    """
    for attempt in range(_ATTEMPTS):
        row = await connection.fetchrow(query("month_detaching"), f"perdure.{part}", name)
        if row is None:
            return
        how = "finalize" if row["pending"] else "concurrently"
        try:
            await connection.execute(f"alter table perdure.{part} detach partition perdure.{row['name']} {how}")
        except (asyncpg.ObjectNotInPrerequisiteStateError, asyncpg.UndefinedTableError):
            if attempt + 1 == _ATTEMPTS:
                raise


async def _check_files(month: Month) -> None:
    for file in month.files:
        if not await asyncio.to_thread(file.is_whole):
            raise ExportIncomplete(
                f"{file.path} is not here as it was written: drop {month} where it is, or "
                f"`perdure archive export {month}` again, or --without-export"
            )


async def _check_rows(connection: Connection, month: Month) -> None:
    for file in month.files:
        if file.part in month.tables:
            name = month.tables[file.part].name
            count = await connection.fetchval(f"select count(*) from perdure.{name}")
            forgotten = await connection.fetchval(query("month_forgotten"), month.first, file.part)
            if count + forgotten > file.rows:
                raise ExportIncomplete(
                    f"{month} has {count} rows in perdure.{name}, and {file.rows} were exported: "
                    f"`perdure archive export {month}` again, then drop it"
                )


async def _clear(connection: Connection, month: Month) -> None:
    if "finished" not in month.tables:
        return
    async with step(connection):
        await connection.execute(query("month_clearing"), month.first)
    sql = query("month_clear").format(finished=month.tables["finished"].name)
    last: tuple[str, str, int] | None = ("", "", -1)
    while last is not None:
        async with step(connection):
            row = await connection.fetchrow(sql, *last, BATCH, month.first)
        last = None if row is None else (row["lifecycle"], row["id"], row["generation"])


async def _drop_tables(connection: Connection, month: Month) -> None:
    names = ", ".join(f"perdure.{table.name}" for table in month.tables.values())

    async def act() -> None:
        await connection.execute(f"drop table if exists {names}")
        await connection.execute(query("month_dropped"), month.first)

    try:
        await briefly(connection, act)
    except asyncpg.LockNotAvailableError:
        raise NotNow(f"another session reads {names} by name: end that, and run this again") from None


async def _summary(connection: Connection, month: Month) -> Dropped:
    carried = await connection.fetch(query("month_carried"), month.begin, month.end)
    doubts = await connection.fetch(query("month_kept_effects"), month.first)
    return Dropped(
        str(month),
        tuple((f"{row['lifecycle']}/{row['id']}", row["rows"]) for row in carried),
        tuple(row["key"] for row in doubts),
    )
