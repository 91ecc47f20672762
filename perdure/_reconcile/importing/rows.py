"""Importing: starts lifecycles for rows of work from before Perdure. It can be stopped and run again.

If an older job may have begun the work of a row, the same transaction records its effects as in doubt, so that their
doubt policies settle them first.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import asyncpg

from perdure._crypto.sealed import bound_to
from perdure._reconcile.importing.apart import apart
from perdure._reconcile.importing.doubts import Doubt
from perdure._reconcile.importing.existing_work import ExistingWork, Lock, Row
from perdure._reconcile.importing.permission import check_may_import
from perdure._reconcile.importing.spelling import spelled_otherwise
from perdure._store.bounds import bounds
from perdure._store.schema import Connection
from perdure._store.sql import queries
from perdure._workflow.lifecycle import Lifecycle
from perdure.app import input_json, name_of
from perdure.contracts.keys import Entity
from perdure.contracts.sizes import parsed
from perdure.errors import DatabaseUnavailable, InvalidEntity, InvalidInput, NotNow, NotPermitted

query = queries(__name__)


_REPEATED = (
    "several rows have this id, and a doubt about one of them would be lost: give --key a unique column, or a --query "
    "with one row for each id"
)
_OVERDUE = "PostgreSQL needs longer than 30 s to read it and start its lifecycle: make the query or --input faster"
_HIDDEN = (
    "this role may read it and not lock it: let a policy of its table's row-level security allow update for this role"
)
_ENDED = (
    "PostgreSQL has ended the transaction of a batch: it is away, or the inputs, which change with each query, took "
    "longer than 5 s to check: give a smaller --batch"
)

_CHANGED = (asyncpg.SerializationError, asyncpg.DeadlockDetectedError)
"""Another transaction has changed the row meanwhile, such as moved it to another partition, or waits for this one."""

# The app waits for a row that is being imported: for the duration of its batch, or 5 s if this process stands still.
_BOUNDS = {
    lock: bounds(lock=wait, statement="30s", idle="5s")
    for lock, wait in ((Lock.NONE, "5s"), (Lock.FREE_ONLY, "200ms"), (Lock.WAIT, "5s"))
}


@dataclass(slots=True)
class Imported:
    """The results so far.

    Attributes:
        started: lifecycles that were started.
        in_doubt: lifecycles whose effects may have happened.
        bad: ids of rows that cannot be imported as they are.
        seen: all of these.
    """

    started: int = 0
    in_doubt: int = 0
    bad: int = 0
    seen: int = 0


@dataclass(frozen=True, slots=True)
class _Taken:
    """A row that was imported, or the reason why it was not."""

    id: str
    answer: str = ""
    in_doubt: bool = False
    why: Exception | None = None


class _DryRun(Exception):
    """Ends the transaction of a dry run."""


@dataclass(slots=True)
class Import:
    """Imports the rows of a table.

    Attributes:
        db: a connection of its own.
        lifecycle: the lifecycle that is started for each row.
        work: the rows.
        doubt: the effects that rows may have performed already; None = no status stands for that.
        priority: priority of the starts, 1 (first) to 5.
        batch: rows in one transaction.
        rate: most rows per second; None = no limit.
        refuse: receives the id of each bad row, and the reason.
        progress: is called after each batch.
        dry_run: do all of it, and roll each batch back.
    """

    db: Connection
    lifecycle: type[Lifecycle[Any, Any]]
    work: ExistingWork
    doubt: Doubt | None
    priority: int
    batch: int
    rate: float | None
    refuse: Callable[[str, str], None]
    progress: Callable[[Imported], None]
    dry_run: bool = False
    done: Imported = field(default_factory=Imported)
    _bad: set[str | None] = field(default_factory=set)
    _begun: float = 0.0

    async def run(self) -> Imported:
        """Import until a look through all rows finds none without a lifecycle. The app may insert rows meanwhile.

        A job may have begun a row although its lifecycle was started, by the app or for another row of an earlier
        import: such a doubt is recorded as well, as long as no worker has begun the lifecycle.

        Raises:
            NotPermitted, NotThisDatabase: see `check_may_import`.
        """
        await check_may_import(self.db, dry_run=self.dry_run)
        self._begun = time.monotonic()
        if rows := await self.work.without_id(self.db):
            self.done.bad += rows
            self.refuse("null", f"the id of {rows} rows is null")
        lock = Lock.NONE if self.dry_run else Lock.FREE_ONLY
        while True:
            before = self.done.seen
            left = await self._look_through(lock, self.doubt.processing) if self.doubt else 0
            left += await self._look_through(lock, None)
            if self.dry_run or (self.done.seen == before and not left):
                return self.done
            # Only rows that other sessions hold are left: wait for them, so that each is imported or named.
            lock = Lock.WAIT if self.done.seen == before else Lock.FREE_ONLY

    async def _look_through(self, lock: Lock, begun: Sequence[str] | None) -> int:
        """Look through all rows once. Returns the number of skipped rows, which others held or had changed."""
        after: str | None = None
        left = 0
        while ids := await self.work.ids(self.db, after, self._size(lock), begun):
            after = ids[-1]
            wanted = [each for each in dict.fromkeys(ids) if each not in self._bad]
            before = self.done.seen
            await self._import(wanted, lock)
            left += len(wanted) - (self.done.seen - before)
            self.progress(self.done)
            if self.rate:
                await asyncio.sleep(self._begun + self.done.started / self.rate - time.monotonic())
        return left

    def _size(self, lock: Lock) -> int:
        """Rows of the next batch."""
        if lock is Lock.WAIT:
            return 1  # each row alone, so that it waits only for held rows
        return min(self.batch, max(1, int(self.rate))) if self.rate else self.batch

    async def _import(self, ids: Sequence[str], lock: Lock) -> None:
        async def take(some: Sequence[str]) -> list[_Taken]:
            try:
                return await self._take(some, lock)
            except asyncpg.QueryCanceledError:
                if len(some) == 1:
                    return [_Taken(some[0], why=NotNow(_OVERDUE))]
            self.batch = half = len(some) // 2  # it would take as long for those that follow
            return [*await apart(some[:half], take, refuse), *await apart(some[half:], take, refuse)]

        def refuse(row_id: str) -> Callable[[Exception], None]:
            def note(why: Exception) -> None:
                if isinstance(why, _CHANGED):
                    return  # it is looked at again
                if not isinstance(why, asyncpg.LockNotAvailableError):
                    self._refuse(row_id)(why)
                elif lock is Lock.WAIT:
                    self._refuse(row_id)(NotNow("another transaction holds it: end that, and run this again"))

            return note

        for taken in await apart(ids, take, refuse):
            if taken.why is not None:
                self._refuse(taken.id)(taken.why)
            else:
                self.done.seen += 1
                self.done.started += taken.answer == "started"
                self.done.in_doubt += taken.in_doubt

    async def _take(self, ids: Sequence[str], lock: Lock) -> list[_Taken]:
        """Import rows in one transaction, so that a row keeps its status until its lifecycle is on record."""
        # The author's model may take long to check a row, which nobody has to wait for then.
        checked = {row: self._checked(row) for row in await self.work.rows(self.db, ids)}
        async with self._transaction(lock):
            rows = await self.work.rows(self.db, ids, lock)
            refused = dict(await spelled_otherwise(self.db, name_of(self.lifecycle), [row.id for row in rows]))
            repeated = await self.work.repeated(self.db, ids)  # a row that a job holds counts as well
            refused |= dict.fromkeys(repeated, InvalidEntity(_REPEATED))
            found = [checked.get(row) or self._checked(row) for row in rows if row.id not in refused]
            orders = [each for each in found if not isinstance(each, _Taken)]
            answers = await self._start(orders) if orders else []
            if lock is Lock.WAIT and not rows and await self.work.rows(self.db, ids):
                found += [_Taken(each, why=NotPermitted(_HIDDEN)) for each in ids]
        found += [_Taken(each, why=refused[each]) for each in sorted(refused)]
        started = [_Taken(each["id"], each["answer"], each["in_doubt"]) for each in answers]
        return [*started, *(each for each in found if isinstance(each, _Taken))]

    @asynccontextmanager
    async def _transaction(self, lock: Lock) -> AsyncIterator[None]:
        """A dry run rolls it back, so PostgreSQL refuses what it would refuse in the import."""
        try:
            async with self.db.transaction():
                await self.db.execute(_BOUNDS[lock])
                yield
                if self.dry_run:
                    raise _DryRun
        except _DryRun:
            pass
        except asyncpg.InterfaceError as error:
            raise DatabaseUnavailable(_ENDED) from error

    def _refuse(self, row_id: str | None) -> Callable[[Exception], None]:
        def note(why: Exception) -> None:
            self._bad.add(row_id)
            self.done.bad += 1
            self.done.seen += 1
            self.refuse(str(row_id), str(why))

        return note

    def _checked(self, row: Row) -> dict[str, Any] | _Taken:
        try:
            return self._order(row)
        except (InvalidEntity, InvalidInput) as error:
            return _Taken(row.id, why=error)

    def _order(self, row: Row) -> dict[str, Any]:
        entity = Entity(name_of(self.lifecycle), row.id)
        with bound_to(entity):
            given = input_json(self.lifecycle, parsed(row.input), sealing=True, recorded=True)
        doubts = self.doubt.records(entity, row) if self.doubt else []
        return {"id": entity.id, "input": given, "tenant": row.tenant, "doubts": doubts}

    async def _start(self, orders: Sequence[dict[str, Any]]) -> list[asyncpg.Record]:
        given = json.dumps(list(orders))
        return await self.db.fetch(query("import_rows"), name_of(self.lifecycle), self.priority, given)
