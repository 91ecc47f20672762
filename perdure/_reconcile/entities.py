"""The pass over all open entities, which compares each record with its workflow. Finished entities cost nothing.

One request to Temporal for each page lists its open workflows. A further request follows only for a workflow that is
not listed, or whose record was written since the last reconciliation.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta

import asyncpg

from perdure._reconcile.behind import behind
from perdure._reconcile.closed import is_open_after_all
from perdure._reconcile.context import Context
from perdure._reconcile.failing import failing
from perdure._reconcile.parked import parked
from perdure._reconcile.row import Row
from perdure._reconcile.stuck import stuck
from perdure._reconcile.unreadable import unreadable
from perdure._reconcile.writing import HELD, fetch
from perdure._services.service import EXPECTED_ERRORS
from perdure._store.finding_kinds import UNREADABLE
from perdure._store.parked import ABOUT_DOUBT
from perdure._store.sql import queries
from perdure.errors import InvalidEntity, UnstorableWrite

query = queries(__name__)

PAGE = 200
"""Entities in one request to Temporal, which must have room for their ids."""
AT_ONCE = 10
"""Number of entities that are checked at the same time."""

_OF_DATA = ("22", "23", "54")
"""Classes of SQLSTATE: a value that PostgreSQL cannot take, a constraint, a size beyond its limits."""

log = logging.getLogger("perdure.reconciliation")


async def open_entities(context: Context, cursor: object = None) -> int:
    """Look at each open entity of the app's lifecycles, mend what can be mended, and report the rest.

    Args:
        cursor: the place to continue from: lifecycle and id of the last checked entity, and the number of checked
            ones.

    Returns:
        The number of checked entities.
    """
    place = _Place.of(cursor)
    only = (context.only.lifecycle, context.only.id) if context.only else (None, None)
    lifecycles = list(context.app.lifecycles)
    page = query("open_for_reconciliation")
    while found := await fetch(context, page, lifecycles, place.lifecycle, place.id, PAGE, *only, ABOUT_DOUBT):
        await _look(context, [row for each in found if (row := _row(each))])
        place = _Place(found[-1]["lifecycle"], found[-1]["id"], place.seen + len(found))
        context.beat([place.lifecycle, place.id, place.seen])
        if len(found) < PAGE:
            break
    return place.seen


@dataclass(frozen=True, slots=True)
class _Place:
    lifecycle: str = ""
    id: str = ""
    seen: int = 0

    @classmethod
    def of(cls, cursor: object) -> _Place:
        match cursor:
            case [str(lifecycle), str(id), int(seen)]:
                return cls(lifecycle, id, seen)
            case _:
                return cls()


def _row(found: asyncpg.Record) -> Row | None:
    try:
        return Row.of(found)
    except InvalidEntity:  # SQL accepts the id; the start was rejected and is reported elsewhere
        return None


async def _look(context: Context, rows: Sequence[Row]) -> None:
    running = await listed_as_open(context, rows)
    few = asyncio.Semaphore(AT_ONCE)

    async def look(row: Row) -> None:
        async with few:
            await _look_at(context, row, row.entity.workflow_id(context.settings.scope) in running)

    await asyncio.gather(*(look(row) for row in rows))


async def listed_as_open(context: Context, rows: Sequence[Row]) -> set[str]:
    """Ids of the workflows that Temporal lists as open. Lists may be late, and do not find ids with quotes or
    backslashes, so a workflow that is not listed is described as well."""
    ids = [row.entity.workflow_id(context.settings.scope) for row in rows]
    listed = ",".join("'" + each.replace("'", "''") + "'" for each in ids if not {'"', "\\"} & set(each))
    if not listed:
        return set()
    found = context.temporal_client.list_workflows(
        f"ExecutionStatus = 'Running' and WorkflowId in ({listed})", page_size=PAGE, rpc_timeout=_RPC
    )
    return {each.id async for each in found}


_RPC = timedelta(seconds=20)
_ON_RECORD: tuple[Callable[[Context, Row], Awaitable[None]], ...] = (stuck, parked, unreadable)


async def _look_at(context: Context, row: Row, runs: bool) -> None:
    async with alone(context, row):
        if not runs and not (row.is_young(context) or await is_open_after_all(context, row)):
            return
        for look in _ON_RECORD:
            await look(context, row)
        if not await failing(context, row):
            await behind(context, row)


@asynccontextmanager
async def alone(context: Context, row: Row) -> AsyncIterator[None]:
    """Check one entity. A failure of it affects no other entity."""
    try:
        yield
    except HELD:
        log.info("%s is held by another transaction: left to the next look", row.entity)
    except Exception as error:
        if not _is_of_entity(error):
            raise
        log.exception("%s could not be looked at", row.entity)
        await _report(context, row, error)


def _is_of_entity(error: Exception) -> bool:
    """Whether the entity's own data may be the cause; else the outside world is."""
    if isinstance(error, asyncpg.PostgresError):
        return (error.sqlstate or "").startswith(_OF_DATA)
    return isinstance(error, UnstorableWrite) or not isinstance(error, EXPECTED_ERRORS)


async def _report(context: Context, row: Row, error: Exception) -> None:
    what = f"the reconciliation could not check it: {type(error).__name__}"
    advice = f"{row.command('show')}; the worker's log has the rest"
    try:
        await context.findings.report(UNREADABLE, row.entity, what, advice, about="reconciliation")
    except asyncpg.PostgresError as failure:
        if not _is_of_entity(failure):
            raise
        log.exception("%s: the finding could not be recorded", row.entity)
