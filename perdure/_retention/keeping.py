"""The reconciliation's work on months: it makes future ones, and exports and drops those beyond the retention."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import asyncpg

from perdure._retention.dropping import ExportIncomplete, check_droppable, drop, tidy
from perdure._retention.exporting import export
from perdure._retention.months import Month, every_month, now, the_month
from perdure._retention.working import working
from perdure._store import schema
from perdure._store.postgres import Pool, answering
from perdure._store.schema import Connection
from perdure.errors import DatabaseUnavailable, PerdureError
from perdure.logs import log_event
from perdure.settings import Settings

log = logging.getLogger("perdure.archive")

_OWNS = "select pg_has_role(nspowner, 'usage') from pg_namespace where nspname = 'perdure'"


@dataclass(slots=True)
class MonthsKept:
    """The result of the work.

    Attributes:
        exported: months that were written to PERDURE_ARCHIVE_TO, as `2026-01`.
        dropped: months that were dropped from the database.
        carried: transitions of open entities that were kept.
        doubts: keys of effects whose doubt outlived their month, and whose rows stay.
        problems: failures, a sentence each.
    """

    exported: list[str] = field(default_factory=list)
    dropped: list[str] = field(default_factory=list)
    carried: int = 0
    doubts: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)


async def keep_months(config: Settings, pool: Pool) -> MonthsKept:
    """Make future months. If PERDURE_RETENTION is set, export older ones (if PERDURE_ARCHIVE_TO is set) and drop them.
    A month whose export fails is not dropped, and is listed in `problems`.

    It can run at any time, concurrently, and be interrupted. It may take hours, so give it a heartbeat.

    Raises:
        DatabaseUnavailable: PostgreSQL does not answer.
    """
    with answering():
        async with pool.acquire() as connection:
            await schema.make_months(connection)
    kept = MonthsKept()
    if config.retention is None:
        return kept
    try:
        async with working(config.database_url) as connection:
            if not await connection.fetchval(_OWNS):
                who = "only the owner of the schema can drop months"
                kept.problems.append(f"{who}: run `perdure archive drop` as that role")
                return kept
            for month in await _too_old(connection, config.retention):
                await _let_go(connection, month, config, kept)
            await tidy(connection)
    except DatabaseUnavailable:
        raise
    except PerdureError as error:
        kept.problems.append(str(error))
    return kept


async def _too_old(connection: Connection, retention: int) -> Sequence[Month]:
    at = await now(connection)
    return [each for each in await every_month(connection) if each.tables and each.kept_until(retention) <= at]


async def _let_go(connection: Connection, month: Month, config: Settings, kept: MonthsKept) -> None:
    """Drop each month by itself: a failure does not stop the others."""
    try:
        await _export_and_drop(connection, month, config, kept)
    except (PerdureError, asyncpg.PostgresError, OSError) as error:
        if connection.is_closed():
            raise
        kept.problems.append(f"{month}: {error}")
        log_event(log, "month not dropped", level=logging.WARNING, month=str(month), why=str(error))


async def _export_and_drop(connection: Connection, month: Month, config: Settings, kept: MonthsKept) -> None:
    without = config.archive_to is None
    if config.archive_to is not None and not _is_exported(month, Path(config.archive_to)):
        month = await _export(connection, month, config.archive_to, kept)
    try:
        await check_droppable(connection, month, config.retention, without_export=without)
        gone = await drop(connection, month, _log, without_export=without)
    except ExportIncomplete:
        if config.archive_to is None or month.clearing_at is not None:
            raise
        month = await _export(connection, month, config.archive_to, kept)
        gone = await drop(connection, month, _log, without_export=without)
    kept.dropped.append(gone.month)
    kept.carried += sum(rows for _, rows in gone.carried)
    kept.doubts += gone.doubts


def _is_exported(month: Month, folder: Path) -> bool:
    """Whether the month was exported to the folder. Once the deletion of its effects has begun, it can't be exported
    again."""
    if month.exported_at is None:
        return False
    return month.clearing_at is not None or all(Path(file.path).parent == folder.absolute() for file in month.files)


async def _export(connection: Connection, month: Month, folder: str, kept: MonthsKept) -> Month:
    await export(connection, month, Path(folder), _log)
    kept.exported.append(str(month))
    return await the_month(connection, month.first)


def _log(line: str) -> None:
    log_event(log, "archive", did=line)
