"""The rows of the app that should have a lifecycle, as `AppRows` declares them: checked, planned, read."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import asyncpg

from perdure._reconcile.importing.existing_work import key_type, rows_of
from perdure._store.bounds import bounds
from perdure._store.connecting import APPS_PATH
from perdure._store.row_security import hidden_rows
from perdure._store.schema import Connection
from perdure.contracts.app_rows import AppRows
from perdure.errors import DeclarationError

BIG = 100_000
"""Rows of a table. A larger table is not read from end to end each time."""
PAGE = 500
TIMEOUT = "30s"
"""Time-out of each query."""

_PARTIAL = "select indpred is not null from pg_index where indexrelid = format('%I.%I', $1::text, $2::text)::regclass"
_SCANS = ("Seq Scan", "Index Scan", "Index Only Scan")


@dataclass(frozen=True, slots=True)
class Row:
    """A row that has no lifecycle; `input` is JSON text."""

    id: str
    input: str | None
    tenant: str | None


class Expected:
    """The expected rows of one lifecycle.

    Args:
        lifecycle: the name of the lifecycle.
        rows: the declaration.
    """

    def __init__(self, lifecycle: str, rows: AppRows) -> None:
        self.lifecycle = lifecycle
        self._sql = rows.sql
        self._of = rows_of(rows.sql)

    async def check(self, db: Connection) -> None:
        """Check that PostgreSQL can run the query.

        Raises:
            DeclarationError: it cannot, or a needed column is missing.
        """
        try:
            async with db.transaction():
                await db.execute(APPS_PATH)
                for sql in (self._ids(), self._rows("null")):
                    await db.fetch(f"explain {sql}")
        except (asyncpg.LockNotAvailableError, asyncpg.QueryCanceledError):
            return  # the app changes that table now: the reconciliation will report a failure
        except asyncpg.PostgresError as error:
            if (error.sqlstate or "08").startswith(("08", "53", "57", "58")):
                raise
            raise DeclarationError(
                f"{self.lifecycle}: PostgreSQL can't run the query of `expects`: {error}. It is one select with the "
                "columns id, input (jsonb) and maybe tenant"
            ) from error

    async def refusal(self, db: Connection) -> str | None:
        """Why the query would cost too much, by PostgreSQL's plan; None if it would not. Call it in a transaction."""
        await db.execute(APPS_PATH)
        plan = json.loads(await db.fetchval(f"explain (verbose, format json) {self._ids()}"))[0]["Plan"]
        read: dict[str, int] = {}
        for node in _nodes(plan):
            table = await _read_whole(db, node)
            if table is not None:
                read[table] = await _estimate(db, table)
        if sum(read.values()) <= BIG:
            return None
        biggest = max(read, key=lambda table: read[table])
        return f"PostgreSQL would read all of {biggest}, some {read[biggest]:,} rows"

    async def hidden(self, db: Connection) -> str | None:
        """Why rows may be left out; see `hidden_rows`. Call it in a transaction."""
        await db.execute(APPS_PATH)
        return await hidden_rows(db, f"select {self._of}")

    async def ids(self, db: Connection, only: str | None) -> AsyncIterator[list[str | None]]:
        """Pages of the ids of the rows without a lifecycle, by a cursor of PostgreSQL. Call it in a transaction.

        Args:
            only: return this id alone.
        """
        # The transaction is idle between two pages, while rows are started in other transactions.
        await db.execute(f"{bounds(statement=TIMEOUT, idle='120s')}; {APPS_PATH}")
        await db.execute(f"declare perdure_expected no scroll cursor for {self._ids(only)}")
        while page := await db.fetch(f"fetch {PAGE} from perdure_expected"):
            yield [row["id"] for row in page]
        await db.execute("close perdure_expected")

    async def rows(self, db: Connection, ids: Sequence[str]) -> list[Row]:
        """Those of the rows with these ids that are still expected.

        Raises:
            asyncpg.PostgresError: the query fails for one row.
        """
        async with db.transaction():
            await db.execute(APPS_PATH)
            ids_as_keys = f"$1::text[]::{await key_type(db, self._sql)}[]"
            found = await db.fetch(self._rows(ids_as_keys), ids)
        return [Row(row["id"], row["input"], row["tenant"]) for row in found]

    def _ids(self, only: str | None = None) -> str:
        """The query for ids. Its `offset 0` prevents a plan that reads all of `ident`, which holds every entity ever
        started."""
        one = "" if only is None else f" and q.id::text = {_literal(only)}"
        return f"""select q.id::text as id {self._of}
            where not exists (select from perdure.ident i
                where i.lifecycle = '{self.lifecycle}' and i.id = q.id::text collate "C" offset 0){one}"""

    def _rows(self, keys: str) -> str:
        return f"""select q.id::text as id, q.input::jsonb::text as input, to_jsonb(q) ->> 'tenant' as tenant {self._of}
            where q.id = any({keys})"""


def _nodes(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield plan
    for each in plan.get("Plans", ()):
        yield from _nodes(each)


async def _read_whole(db: Connection, node: dict[str, Any]) -> str | None:
    """The table that this step of a plan reads from end to end, or None."""
    if node["Node Type"] not in _SCANS or "Index Cond" in node:
        return None
    schema = node["Schema"]
    index = node.get("Index Name")
    if index is not None and await db.fetchval(_PARTIAL, schema, index):
        return None
    return str(await db.fetchval("select format('%I.%I', $1::text, $2::text)", schema, node["Relation Name"]))


async def _estimate(db: Connection, table: str) -> int:
    """The planner's present guess of the number of rows, because statistics may be missing."""
    plan = await db.fetchval(f"explain (format json) select from only {table}")
    return int(json.loads(plan)[0]["Plan"]["Plan Rows"])


def _literal(text: str) -> str:
    return "E'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
