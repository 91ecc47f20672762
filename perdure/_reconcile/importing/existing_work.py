"""An existing table of work, as `perdure import` reads it: id, status, input, since and tenant of each row, in order of
the id."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum

import asyncpg

from perdure._store.postgres import is_of_server
from perdure._store.row_security import SEE_ALL, hidden_rows
from perdure._store.schema import Connection
from perdure._store.sql import queries
from perdure.errors import InvalidSetting, NotPermitted

query = queries(__name__)

_COLUMNS = ("id", "status", "input")


class InvalidSource(InvalidSetting, ValueError):
    """The source of existing work cannot be read. The message has the reason."""


_LOCK = "for no key update"
_NEW = """not exists (select from perdure.ident i where i.lifecycle = $2 and i.id = q.id::text collate "C")"""
_BEGUN = """exists (select from perdure.entity e
                where e.lifecycle = $2 and e.id = q.id::text collate "C" and e.generation = 0 and e.state = 'starting')
            and not exists (select from perdure.effect f where f.lifecycle = $2 and f.id = q.id::text collate "C")"""


class Lock(Enum):
    """How rows are locked while they are imported."""

    NONE = ""
    FREE_ONLY = f"{_LOCK} skip locked"
    """Rows that another session holds are left out."""
    WAIT = _LOCK


@dataclass(frozen=True, slots=True)
class Row:
    """One row of existing work; `input` is JSON text, `since` is a time in PostgreSQL's format."""

    id: str
    status: str
    input: str | None
    since: str | None
    tenant: str | None


@dataclass(frozen=True, slots=True)
class ExistingWork:
    """Existing work in an app's database.

    Attributes:
        sql: a query with the columns id, status, input (jsonb) and maybe since (timestamptz) and tenant.
        lifecycle: name of the lifecycle for the rows. Rows that have it already are left out.
        statuses: only rows in one of these statuses are read.
        key_type: the type of the column id. PostgreSQL has dates and times that Python has not, so ids are text here.
        dated: whether the query has the column since.
        tenanted: whether it has the column tenant.
        lockable: whether the rows can be locked; those of a query that groups or unites cannot.
        unlocked: tables whose rows the query reads and PostgreSQL does not lock, as in a `with` and in a subquery of a
            column.
    """

    sql: str
    lifecycle: str
    statuses: tuple[str, ...]
    key_type: str
    dated: bool
    tenanted: bool
    lockable: bool = False
    unlocked: tuple[str, ...] = ()

    @classmethod
    async def check(cls, db: Connection, sql: str, lifecycle: str, statuses: Sequence[str]) -> ExistingWork:
        """Check in PostgreSQL that the query can be run, and return it.

        Raises:
            InvalidSource: it cannot, a needed column is missing, or the role may not lock the rows.
            NotPermitted: row-level security may hide rows from the role.
            asyncpg.PostgresError: the server fails, or takes no writes.
        """
        sql = sql.strip().rstrip(";").rstrip()
        try:
            columns = {each.name for each in (await db.prepare(sql)).get_attributes()}
        except (asyncpg.PostgresError, asyncpg.InterfaceError) as error:
            raise InvalidSource(f"PostgreSQL can't run {sql!r}: {error}") from error
        if missing := [each for each in _COLUMNS if each not in columns]:
            raise InvalidSource(
                f"{sql!r} has no column named {missing[0]!r}: name them id, status, input and maybe since and tenant"
            )
        try:
            kind = await key_type(db, sql)
            found = cls(sql, lifecycle, tuple(statuses), kind, "since" in columns, "tenant" in columns)
            await db.prepare(found._rows())
            tables = await found._tables(db)
            await found._check_that_none_is_hidden(db)
            unlocked = tuple(name for name, is_locked in tables.items() if not is_locked)
            return replace(found, lockable=any(tables.values()), unlocked=unlocked)
        except (asyncpg.PostgresError, asyncpg.InterfaceError) as error:
            if isinstance(error, asyncpg.PostgresError) and is_of_server(error):
                raise
            raise InvalidSource(f"PostgreSQL can't read the columns of {sql!r}: {error}") from error

    async def _check_that_none_is_hidden(self, db: Connection) -> None:
        async with db.transaction():
            if hidden := await hidden_rows(db, f"select {self._of}"):
                raise NotPermitted(f"rows would be left out: {hidden}. {SEE_ALL}")

    async def _tables(self, db: Connection) -> dict[str, bool]:
        """The tables of the query, and whether PostgreSQL locks their rows: it accepts a lock for more queries than it
        obeys it for."""
        try:
            async with db.transaction():
                await db.fetch(f"select {self._of} limit 0 {_LOCK}")
                return {row["name"]: row["locked"] for row in await db.fetch(query("tables_read"))}
        except asyncpg.FeatureNotSupportedError:
            return {}
        except asyncpg.InsufficientPrivilegeError as error:
            raise InvalidSource(
                f"the role may not lock the rows of {self.sql!r} ({error}): grant it update on one of their columns"
            ) from error

    @property
    def warning(self) -> str | None:
        """Which rows can change while they are imported."""
        if not self.lockable:
            return "no row of this query can be locked: first stop everything that changes them"
        if self.unlocked:
            return (
                f"rows of {', '.join(self.unlocked)} are read and not locked: first stop everything that changes them"
            )
        return None

    async def estimate(self, db: Connection) -> int:
        """PostgreSQL's guess of the number of rows."""
        plan = await db.fetchval(f"explain (format json) {self._ids(_NEW)}", list(self.statuses), self.lifecycle)
        return int(json.loads(plan)[0]["Plan"]["Plan Rows"])

    async def ids(self, db: Connection, after: str | None, most: int, begun: Sequence[str] | None = None) -> list[str]:
        """The ids of the next rows without a lifecycle.

        Args:
            after: None = from the first row.
            begun: statuses; in place of those rows, the ones whose lifecycle was started, which no worker has begun and
                of which no effect is on record. So the status of such a row is that of a job.
        """
        condition, statuses = (_NEW, self.statuses) if begun is None else (_BEGUN, begun)
        further, values = ("", ()) if after is None else (f"and q.id > $4::text::{self.key_type}", (after,))
        sql = f"{self._ids(condition, further)} limit $3"
        rows = await db.fetch(sql, list(statuses), self.lifecycle, most, *values)
        return [row["id"] for row in rows]

    async def without_id(self, db: Connection) -> int:
        """The number of rows whose id is null."""
        sql = f"select count(*) {self._of} where q.id is null and q.status::text = any($1::text[])"
        return int(await db.fetchval(sql, list(self.statuses)))

    async def statuses_of_no_row(self, db: Connection) -> list[str]:
        """Those of the statuses that no row has, such as a misspelt one."""
        sql = f"""select s from unnest($1::text[]) with ordinality x (s, n)
            where not exists (select {self._of} where q.status::text = s) order by n"""
        return [row["s"] for row in await db.fetch(sql, list(self.statuses))]

    async def repeated(self, db: Connection, ids: Sequence[str]) -> set[str]:
        """Those of the ids that several rows have, whoever holds them."""
        rows = await db.fetch(
            f"""select q.id::text as id {self._of}
                where {self._among} and q.status::text = any($2::text[]) group by q.id::text having count(*) > 1""",
            *(ids, list(self.statuses)),
        )
        return {row["id"] for row in rows}

    async def rows(self, db: Connection, ids: Sequence[str], lock: Lock = Lock.NONE) -> list[Row]:
        """Those of the rows with these ids that are still in one of the statuses. With a lock, no other session can
        change them until the transaction ends.

        Raises:
            asyncpg.PostgresError: the query fails for one row, or another session holds one for too long.
        """
        sql = f"{self._rows()} {lock.value}" if self.lockable else self._rows()
        found = await db.fetch(sql, ids, list(self.statuses))
        return [Row(row["id"], row["status"], row["input"], row["since"], row["tenant"]) for row in found]

    @property
    def _of(self) -> str:
        return rows_of(self.sql)

    @property
    def _among(self) -> str:
        return f"q.id = any($1::text[]::{self.key_type}[])"

    def _ids(self, condition: str, further: str = "") -> str:
        return f"""select q.id::text as id {self._of}
            where q.id is not null and q.status::text = any($1::text[]) {further} and {condition} order by q.id"""

    def _rows(self) -> str:
        since = "to_jsonb(q.since::timestamptz) #>> '{}'" if self.dated else "null"
        tenant = "q.tenant::text" if self.tenanted else "null"
        return f"""select q.id::text, q.status::text, q.input::jsonb::text as input, {since} as since,
                {tenant} as tenant
            {self._of} where {self._among} and q.status::text = any($2::text[]) order by q.id"""


def rows_of(sql: str) -> str:
    """The FROM clause that has the rows of a query as q."""
    return f"from ({sql}\n) q"  # on a new line, because the query may end in a comment


async def key_type(db: Connection, sql: str) -> str:
    """The type of the column id of a query, as SQL."""
    # -1: no length, so that a value is not cut to the one that the bare name of the type would mean.
    return str(await db.fetchval(f"select format_type(pg_typeof((select q.id {rows_of(sql)} limit 0)), -1)"))


async def of_table(db: Connection, table: str, key: str, column: str, given: str | None, since: str | None) -> str:
    """The query for a table of the app.

    Args:
        table: the name of the table, with its schema if that is not on the search path.
        key: the column with the entity id.
        column: the column with the status.
        given: SQL expression of the input; None = the whole row as JSON.
        since: the column, or SQL expression, with the begin of the work.

    Raises:
        InvalidSource: there is no such table or column.
    """
    try:
        name = await db.fetchval("select $1::regclass::text", table)
    except asyncpg.PostgresError as error:
        raise InvalidSource(f"--table {table}: {error}") from error
    known = {row[0] for row in await db.fetch("select attname from pg_attribute where attrelid = $1::regclass", table)}
    for option, each in (("--key", key), ("--column", column)):
        if each not in known:
            raise InvalidSource(f"{option} {each}: {table} has no such column")
    parts = [f"t.{_quoted(key)} as id", f"t.{_quoted(column)} as status", f"({given or 'to_jsonb(t)'}\n) as input"]
    parts += [f"({since}\n) as since"] if since else []
    return f"select {', '.join(parts)} from {name} t"


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
