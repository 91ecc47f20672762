"""MISSING: rows of the app that should have a lifecycle by its `expects`, and have none. They are started."""

from __future__ import annotations

import json
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeVar

import asyncpg

from perdure._crypto.sealed import bound_to
from perdure._reconcile.context import Context
from perdure._reconcile.expected import Expected, Row
from perdure._reconcile.importing.apart import apart
from perdure._reconcile.importing.spelling import spelled_otherwise
from perdure._store.bounds import bounds
from perdure._store.finding_kinds import MISSING
from perdure._store.row_security import SEE_ALL
from perdure._store.sql import queries
from perdure._text.privacy import describe
from perdure._workflow.lifecycle import Lifecycle
from perdure.app import input_json
from perdure.contracts.app_rows import AppRows
from perdure.contracts.keys import Entity
from perdure.contracts.sizes import parsed
from perdure.errors import InvalidEntity, InvalidInput

query = queries(__name__)

T = TypeVar("T")
U = TypeVar("U")

NAMED = 200
"""Rows of a lifecycle that get a finding of their own; further rows are counted."""
WAITS = 10.0
"""Seconds for which the rows of a lifecycle are told apart from those that other sessions hold."""
WHY = "started by the reconciliation: its row had no lifecycle"

_PATIENCE = bounds(lock="50ms")
_BUSY = ("40001", "40P01", "55P03")  # another session writes the row now
_TRANSIENT = ("08", "53", "57", "58")
_OVERDUE = "57014"


async def missing(context: Context, cursor: object) -> None:
    """Start the missing lifecycles of rows, for one lifecycle class after the other. A copied database starts none,
    because its rows without a lifecycle belong to the original (invariant 11).

    Args:
        cursor: name of the last lifecycle class.
    """
    if await context.pool.fetchval(query("is_copy")):
        return
    for name, lifecycle in sorted(context.app.lifecycles.items()):
        other = context.only is not None and context.only.lifecycle != name
        if lifecycle.expects is None or other or (isinstance(cursor, str) and name < cursor):
            continue
        context.beat(name)
        await _Search(context, name, lifecycle, lifecycle.expects).run()


class _Search:
    """The search for one lifecycle's rows."""

    def __init__(self, context: Context, name: str, lifecycle: type[Lifecycle[Any, Any]], rows: AppRows) -> None:
        self._context = context
        self._name = name
        self._lifecycle = lifecycle
        self._expected = Expected(name, rows)
        self._started = 0
        self._waited = 0.0
        self._refused: list[tuple[str | None, str]] = []

    async def run(self) -> None:
        """Page through the rows. An error of the query is reported, and affects no other lifecycle (invariant 8)."""
        only = self._context.only
        try:
            async with self._context.pool.acquire() as db, db.transaction(readonly=True):
                if why := await self._expected.refusal(db):
                    await self._refuse_query(why)
                    return
                if hidden := await self._expected.hidden(db):
                    await self._report_hidden(hidden)
                async for page in self._expected.ids(db, only.id if only else None):
                    await self._start(page)
                    self._context.beat(self._name)
        except asyncpg.PostgresError as error:
            state = error.sqlstate or ""
            if state != _OVERDUE and state.startswith((*_TRANSIENT, *_BUSY)):
                raise
            await self._refuse_query(describe(error))
        await self._report()

    async def _start(self, ids: Sequence[str | None]) -> None:
        """Start rows in transactions of their own, because the cursor's transaction lasts too long. The rows are read
        again, since they may have changed. Those that another session holds are left to the next reconciliation."""
        known = [each for each in ids if each is not None]
        if len(known) < len(ids):
            self._refused.append((None, "its id is null"))
        async with self._context.pool.acquire(timeout=10) as db:
            rows = await self._apart(known, lambda some: self._expected.rows(db, some), lambda each: each)
            orders = await self._orders(db, rows)
            started = await self._apart(orders, lambda some: self._commit(db, some), lambda each: each["id"])
        for row in started:
            await self._report_started(row["id"])

    async def _apart(
        self, items: Sequence[T], act: Callable[[Sequence[T]], Awaitable[list[U]]], id_of: Callable[[T], str | None]
    ) -> list[U]:
        """The results of `act`, with each item apart that PostgreSQL refuses. Once the search has waited for `WAITS`,
        items among which some are held are left as they are: each wait takes time, and very many may be held."""

        async def in_time(some: Sequence[T]) -> list[U]:
            began = time.monotonic()
            try:
                return await act(some)
            except asyncpg.PostgresError as error:
                if error.sqlstate not in _BUSY:
                    raise
                self._waited += time.monotonic() - began
                if self._waited < WAITS:
                    raise
                return []

        return await apart(items, in_time, lambda each: self._refuse(id_of(each)))

    async def _orders(self, db: Any, rows: Sequence[Row]) -> list[dict[str, Any]]:
        refused = await spelled_otherwise(db, self._name, [row.id for row in rows])
        for row_id, why in refused.items():
            self._refuse(row_id)(why)
        found = [self._order(row) for row in rows if row.id not in refused]
        return sorted(filter(None, found), key=lambda order: str(order["id"]))

    def _order(self, row: Row) -> dict[str, Any] | None:
        try:
            entity = Entity(self._name, row.id)
            with bound_to(entity):
                given = input_json(self._lifecycle, parsed(row.input), sealing=True, recorded=True)
        except (InvalidEntity, InvalidInput) as error:
            self._refuse(row.id)(error)
            return None
        return {"id": entity.id, "input": given, "tenant": row.tenant}

    async def _commit(self, db: Any, orders: Sequence[dict[str, Any]]) -> list[asyncpg.Record]:
        given = json.dumps(list(orders))
        async with db.transaction():
            await db.execute(_PATIENCE)
            found: list[asyncpg.Record] = await db.fetch(
                query("start_missing"), self._name, given, self._context.by, WHY
            )
        return found

    def _refuse(self, row_id: str | None) -> Callable[[Exception], None]:
        def note(why: Exception) -> None:
            if getattr(why, "sqlstate", None) not in _BUSY:
                self._refused.append((row_id, str(why)))

        return note

    async def _refuse_query(self, why: str) -> None:
        advice = (
            "Give `expects` a partial index, or an index and a time bound (`perdure help reconciliation`). "
            f"For very many rows: perdure import APP {self._name}"
        )
        await self._context.findings.report(
            MISSING,
            None,
            f"the query of {self._name}.expects can't be used: {why}",
            advice,
            about=f"{self._name}: query",
        )

    async def _report_hidden(self, hidden: str) -> None:
        what = f"the query of {self._name}.expects may miss rows: {hidden}"
        await self._context.findings.report(MISSING, None, what, f"{SEE_ALL}.", about=f"{self._name}: hidden")

    async def _report_started(self, row_id: str) -> None:
        self._started += 1
        if self._started <= NAMED:
            await self._context.findings.mended(
                MISSING, Entity(self._name, row_id), "it had no lifecycle, and was started"
            )

    async def _report(self) -> None:
        findings = self._context.findings
        if (more := self._started - NAMED) > 0:
            what = f"{more} more of {self._name} had no lifecycle, and were started"
            await findings.mended(MISSING, None, what, about=f"{self._name}: others, started")
        for row_id, why in self._refused[:NAMED]:
            await self._report_refused(row_id, why)
        if (more := len(self._refused) - NAMED) > 0:
            what = f"{more} more rows for {self._name} have no lifecycle, and can't be started as they are"
            advice = "Correct the first ones, and run it again."
            await findings.report(MISSING, None, what, advice, about=f"{self._name}: others")

    async def _report_refused(self, row_id: str | None, why: str) -> None:
        what = f"it has no lifecycle, and can't be started as it is: {why}"
        advice = "Correct the row, or what `expects` makes of it"
        try:
            await self._context.findings.report(MISSING, Entity(self._name, row_id or ""), what, advice)
        except InvalidEntity:
            about = f"{self._name}: {row_id}"[:200]
            await self._context.findings.report(MISSING, None, f"a row for {self._name}: {what}", advice, about=about)
