"""`perdure archive export` writes a month as three Parquet files: finished entities, transitions and effects."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import ParamSpec, TypeVar

import asyncpg

from perdure._retention.months import File, Month, now
from perdure._retention.parquet import Column, ParquetFile, check_library, check_replaceable
from perdure._retention.working import briefly, step
from perdure._store.bounds import bounds
from perdure._store.schema import Connection
from perdure._store.sql import queries
from perdure.errors import NotNow, NotThisDatabase

query = queries(__name__)

GROUP_ROWS, GROUP_BYTES = 20_000, 16_000_000
"""Bytes in one row group at most. An export holds a few times that in memory."""
_FETCHED = 4_000_000
"""Bytes that one query should return."""

_ENTITY: tuple[Column, ...] = (("lifecycle", "text"), ("id", "text"), ("generation", "int"))
COLUMNS: dict[str, tuple[Column, ...]] = {
    "finished": (
        *_ENTITY,
        *((name, "text") for name in ("state", "why", "input", "snapshot", "tenant", "workflow_id")),
        *(("created_at", "time"), ("finished_at", "time")),
    ),
    "transition": (
        *(*_ENTITY, ("version", "bigint")),
        *((name, "text") for name in ("state", "attention", "why", "made_by", "session_role")),
        *(("at", "time"), ("seq", "bigint"), ("effect", "text")),
    ),
    "effect": (
        *(*_ENTITY, ("key", "text"), ("effect", "text"), ("token", "text"), ("status", "text"), ("digest", "text")),
        *(("attempts", "int"), ("version", "bigint")),
        *((name, "time") for name in ("first_at", "attempt_at", "deadline", "earlier_doubt", "earlier_deadline")),
        *((name, "text") for name in ("receipt", "lookup_hint", "why", "settled_by")),
    ),
}
"""The exported columns of each table; jsonb as text."""

_FROM = {
    "finished": "perdure.{finished} x",
    "transition": "perdure.{transition} x",
    "effect": "perdure.{finished} f join perdure.effect x using (lifecycle, id, generation)",
}
_ORDER = {"finished": ("generation", "finished_at"), "transition": ("version", "at"), "effect": ("generation", "key")}

P = ParamSpec("P")
T = TypeVar("T")
Report = Callable[[str], None]


async def export(connection: Connection, month: Month, folder: Path, report: Report) -> tuple[File, ...]:
    """Write a month's files into a folder, in place of those of an earlier export, and record that.

    Args:
        folder: the folder, which is made if it does not exist.
        report: called with a line about each step.

    Raises:
        NotNow: the month is not over, a session still writes into it, or a file cannot be written correctly.
        NotThisDatabase: nobody has verified which database this is, so its rows may be older than those in the files.
        InvalidSetting: pyarrow is not installed.
    """
    check_library()
    origin = await _origin(connection)
    if await now(connection) < month.over_at():
        raise NotNow(f"{month} is not over: it can be exported from {month.over_at():%Y-%m-%d %H:%M} UTC on")
    if month.clearing_at is not None:
        raise NotNow(f"{month} is being dropped, and no longer whole: `perdure archive drop {month}` finishes that")
    folder = await _filed(_made, folder)
    await _wait_for_writers(connection, month)
    paths = {part: folder / f"{part}-{month}.parquet" for part in COLUMNS if _table_of(part) in month.tables}
    for part, path in paths.items():
        await _filed(check_replaceable, path, _about(origin, month, part))
    await _announce(connection, month, paths.values())
    files = await _write_all(connection, month, paths, origin, report)
    async with step(connection):
        await connection.execute(
            query("month_exported"),
            *(month.first, json.dumps([asdict(each) for each in files])),
        )
    return files


def _table_of(part: str) -> str:
    return "finished" if part == "effect" else part


async def _announce(connection: Connection, month: Month, paths: Iterable[Path]) -> None:
    """Record the paths, so `perdure forget` searches the files. Until they are complete, the month is not exported."""
    async with step(connection):
        await connection.execute(
            query("month_paths"),
            *(month.first, [str(path) for path in paths]),
        )


async def _wait_for_writers(connection: Connection, month: Month) -> None:
    """Wait for transactions that began to write before the month's end. Afterwards the month does not change."""
    names = ", ".join(f"perdure.{table.name}" for table in month.tables.values())
    try:
        await briefly(connection, lambda: connection.execute(f"lock table {names} in share mode"))
    except asyncpg.LockNotAvailableError:
        raise NotNow(f"a transaction still writes into {month}: end it (pg_stat_activity shows it)") from None


async def _write_all(
    connection: Connection, month: Month, paths: Mapping[str, Path], origin: str, report: Report
) -> tuple[File, ...]:
    """Write all files from one snapshot."""
    files = []
    async with connection.transaction(isolation="repeatable_read", readonly=True):
        await connection.execute(bounds(statement="0"))
        for part, path in paths.items():
            count, size = await _write(connection, month, part, path, _about(origin, month, part))
            files.append(File(part, str(path), count, size))
            report(f"wrote {path}: {count} rows, {size} bytes")
    return tuple(files)


async def _write(
    connection: Connection, month: Month, part: str, path: Path, about: Mapping[str, str]
) -> tuple[int, int]:
    source = _FROM[part].format(**{name: table.name for name, table in month.tables.items()})
    wanted = ", ".join(f"x.{name}" for name, _ in COLUMNS[part])
    order = ", ".join(f"x.{name}" for name in ("lifecycle", "id", *_ORDER[part]))
    file = await _filed(ParquetFile, path, COLUMNS[part], about)
    try:
        await _stream(connection, f"select {wanted} from {source} order by {order}", file)
        count: int = await connection.fetchval(f"select count(*) from {source}")
        return count, await _filed(file.finish, count)
    except BaseException:
        file.abandon()
        raise


async def _stream(connection: Connection, sql: str, file: ParquetFile) -> None:
    """Read rows by a cursor, a few MB at a time, and write them into row groups."""
    cursor = await connection.cursor(sql)
    group: list[asyncpg.Record] = []
    held, most = 0, 10
    while rows := await cursor.fetch(most):
        size = sum(_bytes(row) for row in rows)
        most = max(1, min(5_000, _FETCHED * len(rows) // max(size, 1)))
        group += rows
        held += size
        if len(group) >= GROUP_ROWS or held >= GROUP_BYTES:
            await _filed(file.add, group)
            group, held = [], 0
    if group:
        await _filed(file.add, group)


async def _filed(work: Callable[P, T], *given: P.args, **more: P.kwargs) -> T:
    """Do work on files in a thread, to its end, so nobody removes a file while it is written.

    Raises:
        NotNow: the file cannot be written. An `OSError` would be taken for one of PostgreSQL.
    """
    doing = asyncio.ensure_future(asyncio.to_thread(work, *given, **more))
    try:
        return await asyncio.shield(doing)
    except asyncio.CancelledError:
        await asyncio.wait({doing})
        raise
    except OSError as error:
        raise NotNow(f"it can't be written: {error}") from error


def _bytes(row: asyncpg.Record) -> int:
    return sum(len(value) if isinstance(value, str) else 8 for value in row)


def _made(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    return folder.absolute()


def _about(origin: str, month: Month, part: str) -> dict[str, str]:
    return {"database": origin, "month": str(month), "part": part}


async def _origin(connection: Connection) -> str:
    """The name of this database in its files. A physical copy has the numbers of its original, and a restored database
    keeps them, but each begins an epoch. So neither replaces files that hold rows which it may lack (invariant 11).

    Raises:
        NotThisDatabase: the epoch is not certain.
    """
    row = await connection.fetchrow(query("month_origin"))
    assert row is not None
    if row["problem"] is not None:
        raise NotThisDatabase(
            f"nothing is exported from here: {row['problem']}. A worker that runs verifies its database; "
            "a copy or a restored one needs `perdure database claim`"
        )
    return str(row["origin"])
