"""The months that a database has or had: what is in them, and what may be done with them."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta

import asyncpg

from perdure._store.schema import Connection
from perdure._store.sql import queries
from perdure.errors import NotNow

query = queries(__name__)

SETTLING = timedelta(days=1)
"""How long after its end a month counts as over: clocks differ, and who began before midnight may still write."""

_NAME = re.compile(r"(\d{4})-(\d{2})")


@dataclass(frozen=True, slots=True)
class Table:
    """A partition, or what was one: `rows` is an estimate."""

    name: str
    attached: bool
    rows: int
    bytes: int


@dataclass(frozen=True, slots=True)
class File:
    """What a month's table was exported to."""

    part: str
    path: str
    rows: int
    bytes: int


@dataclass(frozen=True, slots=True)
class Month:
    """A month of UTC.

    Attributes:
        first: its first day.
        tables: what is left of it in the database, by `finished` and `transition`.
        files: of its newest export.
        paths: every file that an export of it may have written.
        forgotten: rows that were erased since then, by table.
        dropping_at: since when it is being dropped.
        clearing_at: since when the effects of what finished in it go.
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
        """From when on nobody writes into it any more."""
        return self.end + SETTLING

    def kept_until(self, retention: int | None) -> datetime:
        """Before then it is not dropped."""
        return max(self.over_at(), months_later(self.end, retention or 0))


def months_later(begin: datetime, months: int) -> datetime:
    """The first of a month, so many months later."""
    years, month = divmod(begin.month - 1 + months, 12)
    return begin.replace(year=begin.year + years, month=month + 1)


def first_day(name: str) -> date:
    """The first day of the month that is called so.

    Raises:
        ValueError: it is no month.
    """
    if (match := _NAME.fullmatch(name)) is None:
        raise ValueError(f"{name!r} is no month: write it as 2026-01")
    try:
        return date(int(match[1]), int(match[2]), 1)
    except ValueError:
        raise ValueError(f"{name!r} is no month: write it as 2026-01") from None


async def now(connection: Connection) -> datetime:
    """By the database's clock, as the months are made."""
    found: datetime = await connection.fetchval("select clock_timestamp()")
    return found


async def every_month(connection: Connection) -> list[Month]:
    """All that are in the database or were, the oldest first."""
    tables: dict[date, dict[str, Table]] = {}
    for row in await connection.fetch(query("months")):
        table = Table(row["name"], row["attached"], row["rows"], row["bytes"])
        tables.setdefault(row["month"], {})[row["part"]] = table
    known = {row["month"]: row for row in await connection.fetch(query("months_on_record"))}
    return [_month(first, tables.get(first, {}), known.get(first)) for first in sorted(tables.keys() | known.keys())]


async def the_month(connection: Connection, first: date) -> Month:
    """The one that begins so.

    Raises:
        NotNow: it is not in the database; the message says whether it was.
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
