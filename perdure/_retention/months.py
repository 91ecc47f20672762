"""The months that a database has or had, with their content and their permitted operations."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import asyncpg

from perdure._retention.parquet import read_back
from perdure._store.schema import Connection
from perdure._store.sql import queries
from perdure.errors import NotNow

query = queries(__name__)

SETTLING = timedelta(days=1)
"""Time after its end at which a month counts as over: clocks differ, and earlier transactions may still write."""

_NAME = re.compile(r"(\d{4})-(\d{2})")


@dataclass(frozen=True, slots=True)
class Table:
    """A present or former partition; `rows` is an estimate."""

    name: str
    attached: bool
    rows: int
    bytes: int


@dataclass(frozen=True, slots=True)
class File:
    """The file to which a month's table was exported."""

    part: str
    path: str
    rows: int
    bytes: int

    def is_whole(self) -> bool:
        """Whether the file is still there as it was written. All of it is read.

        Raises:
            InvalidSetting: pyarrow is not installed.
        """
        path = Path(self.path)
        try:
            return path.stat().st_size == self.bytes and read_back(path) == self.rows
        except OSError:
            return False


@dataclass(frozen=True, slots=True)
class Month:
    """A month of UTC.

    Attributes:
        first: the first day of the month.
        tables: its remaining tables in the database, by `finished` and `transition`.
        files: the files of its newest export.
        paths: every file that an export of it may have written.
        forgotten: rows that were erased since then, by table.
        dropping_at: time at which its drop began.
        clearing_at: time at which the deletion of its effects began.
    """

    first: date
    tables: Mapping[str, Table] = field(default_factory=dict)
    exported_at: datetime | None = None
    files: tuple[File, ...] = ()
    paths: tuple[str, ...] = ()
    forgotten: Mapping[str, int] = field(default_factory=dict)
    dropping_at: datetime | None = None
    clearing_at: datetime | None = None
    dropped_at: datetime | None = None

    def __str__(self) -> str:
        return f"{self.first:%Y-%m}"

    @property
    def begin(self) -> datetime:
        """Its first instant."""
        return datetime(self.first.year, self.first.month, 1, tzinfo=UTC)

    @property
    def end(self) -> datetime:
        """The first instant after it."""
        return months_later(self.begin, 1)

    def over_at(self) -> datetime:
        """The time after which nobody writes into the month."""
        return self.end + SETTLING

    def kept_until(self, retention: int | None) -> datetime:
        """The time before which the month is not dropped."""
        return max(self.over_at(), months_later(self.end, retention or 0))


def months_later(begin: datetime, months: int) -> datetime:
    """The first day of the month that is so many months later."""
    years, month = divmod(begin.month - 1 + months, 12)
    return begin.replace(year=begin.year + years, month=month + 1)


def first_day(name: str) -> date:
    """The first day of the month with this name.

    Raises:
        ValueError: the text is no month.
    """
    if (match := _NAME.fullmatch(name)) is None:
        raise ValueError(f"{name!r} is no month: write it as 2026-01")
    try:
        return date(int(match[1]), int(match[2]), 1)
    except ValueError:
        raise ValueError(f"{name!r} is no month: write it as 2026-01") from None


async def now(connection: Connection) -> datetime:
    """The present by the database's clock, or by the clock of this machine if that is behind: a clock that has jumped
    ahead must drop no month early."""
    found: datetime = await connection.fetchval("select clock_timestamp()")
    return min(found, datetime.now(UTC))


async def every_month(connection: Connection) -> list[Month]:
    """All present and former months of the database, the oldest first."""
    tables: dict[date, dict[str, Table]] = {}
    for row in await connection.fetch(query("months")):
        table = Table(row["name"], row["attached"], row["rows"], row["bytes"])
        tables.setdefault(row["month"], {})[row["part"]] = table
    known = {row["month"]: row for row in await connection.fetch(query("months_on_record"))}
    return [_month(first, tables.get(first, {}), known.get(first)) for first in sorted(tables.keys() | known.keys())]


async def the_month(connection: Connection, first: date) -> Month:
    """The month with this first day.

    Raises:
        NotNow: the month is not in the database. The message shows whether it was.
    """
    found = next((each for each in await every_month(connection) if each.first == first), None)
    if found is not None and found.tables:
        return found
    if found is not None and found.dropped_at is not None:
        raise NotNow(f"{found} was dropped at {found.dropped_at:%Y-%m-%d %H:%M} UTC: there is nothing left to do")
    raise NotNow(f"there is no month {first:%Y-%m} in this database: `perdure archive list` shows those that are")


def _month(first: date, tables: Mapping[str, Table], row: asyncpg.Record | None) -> Month:
    if row is None:
        return Month(first, tables)
    return Month(
        first,
        tables,
        row["exported_at"],
        tuple(File(**each) for each in json.loads(row["files"])),
        tuple(row["paths"]),
        json.loads(row["forgotten"]),
        row["dropping_at"],
        row["clearing_at"],
        row["dropped_at"],
    )
