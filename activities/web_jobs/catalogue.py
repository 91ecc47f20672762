"""The table of job types as a whole: its types, the states of their jobs, and changes."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from enum import StrEnum
from importlib import resources
from typing import Any, TypeAlias

import asyncpg

from activities.web_jobs.job_type import JobType, Unusable, of_row
from perdure.database import Connection
from perdure.errors import NotNow

FIELDS = tuple(name for name in JobType.model_fields if name != "changed_at")
_UPSERT = (
    f"insert into web_job.type ({', '.join(FIELDS)}) values ({', '.join(f'${n}' for n in range(1, len(FIELDS) + 1))}) "
    f"on conflict (name) do update set changed_at = clock_timestamp(), "
    + ", ".join(f"{name} = excluded.{name}" for name in FIELDS[1:])
)
_LOCK = 0x7765625F6A6F62  # "web_job": `create or replace` from two sides at once fails
_IS_SET_UP = (  # not to_regclass: a session that waited for the lock of the one that made it would still find nothing
    "select exists (select from pg_catalog.pg_class c join pg_catalog.pg_namespace n on n.oid = c.relnamespace "
    "where n.nspname = 'web_job' and c.relname = 'type')"
)

Found: TypeAlias = JobType | Unusable
"""A job type, or the problem of one that SQL has written."""


class Change(StrEnum):
    """The result for a job type that was put."""

    ADDED = "added"
    CHANGED = "changed"
    UNCHANGED = "unchanged"


def tables() -> str:
    """The SQL of the tables and functions of web jobs."""
    return resources.files("activities.web_jobs").joinpath("tables.sql").read_text("utf-8")


async def set_up(connection: Connection) -> None:
    """Make the tables and functions, or bring them up to date; within a transaction.

    Raises:
        NotNow: another session has held the lock of a set-up for as long as a statement may wait here.
    """
    try:
        if not await is_set_up(connection):
            await connection.execute(f"select pg_advisory_xact_lock({_LOCK})")
        # If the tables exist, this lock needs a right on the table, so a stranger cannot block it.
        if await is_set_up(connection):
            await connection.execute("lock table web_job.type in share row exclusive mode")
    except asyncpg.LockNotAvailableError:
        raise NotNow(
            "another session holds the lock of `perdure job-type set-up`: wait until that one is over, or end it. Its "
            "pid: select pid from pg_locks where granted and (locktype = 'advisory' "
            "or relation = to_regclass('web_job.type'))"
        ) from None
    await connection.execute(tables())


async def is_set_up(connection: Connection) -> bool:
    """Whether they are there."""
    return bool(await connection.fetchval(_IS_SET_UP))


async def every_type(connection: Connection) -> list[Found]:
    """All job types, by name."""
    return [_found(row) for row in await connection.fetch('select * from web_job.type order by name collate "C"')]


async def find(connection: Connection, name: str) -> Found | None:
    """The job type of that name; None if it does not exist."""
    row = await connection.fetchrow("select * from web_job.type where name = $1", name)
    return None if row is None else _found(row)


async def standing(connection: Connection, name: str | None = None) -> dict[str, dict[str, int]]:
    """How many jobs of each type are in each state but complete and cancelled, by indexes of those states alone."""
    counts: dict[str, dict[str, int]] = defaultdict(dict)
    of_it = "($1::text is null or type = $1)"
    rows = await connection.fetch(
        f"select type, state, count(*) as jobs from web_job.job where state in ('scheduled', 'held', 'processing') "
        f"and {of_it} group by 1, 2 "
        f"union all select type, 'failed', count(*) from web_job.job where state = 'failed' and {of_it} group by 1",
        name,
    )
    for row in rows:
        counts[row["type"]][row["state"]] = row["jobs"]
    return counts


async def put(connection: Connection, type_: JobType, *, keep_disabled: bool, dry_run: bool = False) -> Change:
    """Add it, or change it to be so; within a transaction.

    Args:
        keep_disabled: whether one that is there stays disabled, or not, as it is.
        dry_run: return the change without making it.
    """
    lock = "" if dry_run else "for update"
    row = await connection.fetchrow(f"select * from web_job.type where name = $1 {lock}", type_.name)
    if row is not None:
        kept = {"disabled": row["disabled"]} if keep_disabled else {}
        type_ = type_.model_copy(update={**kept, "changed_at": row["changed_at"]})
        if _found(row) == type_:
            return Change.UNCHANGED
    if not dry_run:
        await connection.execute(_UPSERT, *(_for_column(getattr(type_, name)) for name in FIELDS))
    return Change.ADDED if row is None else Change.CHANGED


async def disable(connection: Connection, name: str, why: str) -> bool:
    """Hold the jobs of a type. Returns whether the type exists."""
    done = await connection.execute(
        "update web_job.type set disabled = $2, changed_at = clock_timestamp() where name = $1", name, why
    )
    return done.endswith(" 1")


async def enable(connection: Connection, name: str) -> bool:
    """Stop holding the jobs of a type; `release` signals them. Returns whether the type exists."""
    done = await connection.execute(
        "update web_job.type set disabled = null, changed_at = clock_timestamp() where name = $1", name
    )
    return done.endswith(" 1")


async def release(
    acquire: Callable[[], AbstractAsyncContextManager[Connection]], name: str, page: int = 1000
) -> AsyncIterator[int]:
    """Signal the jobs that the type held, one page in each transaction. Yields the number of signalled jobs so far."""
    after, signalled = "", 0
    while True:
        async with acquire() as connection:
            row = await connection.fetchrow("select * from web_job.release($1, $2, $3)", name, after, page)
        if row is None or not row["signalled"]:
            return
        after, signalled = row["last"], signalled + row["signalled"]
        yield signalled


def _found(row: asyncpg.Record) -> Found:
    try:
        return of_row(row)
    except Unusable as error:
        return error


def _for_column(value: Any) -> Any:
    return (
        json.dumps(value, sort_keys=True)
        if isinstance(value, dict)
        else list(value)
        if isinstance(value, tuple)
        else value
    )
