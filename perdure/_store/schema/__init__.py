"""The schema `perdure` in the app's database: numbered plain SQL, applied once each.

Old workers and new ones run side by side while a deploy rolls. So a migration adds, and takes nothing away that
the release before it uses; one that must says so by a line `-- oldest worker: N`: from then on workers whose newest
migration is older than N do not start.
"""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import dataclass
from importlib import resources
from typing import TypeAlias

import asyncpg

from perdure._store.bounds import bounds
from perdure.errors import NotNow, SchemaMismatch

Connection: TypeAlias = "asyncpg.Connection[asyncpg.Record] | asyncpg.pool.PoolConnectionProxy[asyncpg.Record]"

_LOCK = 0x70657264757265  # "perdure": one migrator at a time, however many workers start
_PATIENCE = "60s"
_MIGRATED = (  # not to_regclass, which keeps in the session's cache that there is none
    "select true from pg_catalog.pg_class c join pg_catalog.pg_namespace n on n.oid = c.relnamespace "
    "where n.nspname = 'perdure' and c.relname = 'migration'"
)
_FILE = re.compile(r"(\d{4})_(\w+)\.sql")
_OLDEST = re.compile(r"^-- oldest worker: (\d+)$", re.MULTILINE)
# PostgreSQL lets everybody execute a new function: what any migration has made is closed again.
_CLOSE = "\n".join(
    f"revoke all on {what} perdure from public;"
    for what in ("all routines in schema", "all tables in schema", "schema")
)


@dataclass(frozen=True, slots=True)
class Migration:
    """One numbered file of SQL.

    Attributes:
        oldest: workers run on it whose newest migration is this one or a later one.
    """

    number: int
    name: str
    sql: str
    oldest: int = 1


def migrations() -> list[Migration]:
    """All migrations that this version knows, in order."""
    found = []
    for file in resources.files(__name__).iterdir():
        if match := _FILE.fullmatch(file.name):
            sql = file.read_text("utf-8")
            demand = _OLDEST.search(sql)
            found.append(Migration(int(match[1]), match[2], sql, int(demand[1]) if demand else 1))
    return sorted(found, key=lambda each: each.number)


def script() -> str:
    """The whole schema as one SQL script, for Alembic, Django and others; it records what it applied."""
    parts = [
        f"-- {each.number:04} {each.name}\n{each.sql}\n"
        "insert into perdure.migration (number, name, oldest) "
        f"values ({each.number}, '{each.name}', {each.oldest});\n"
        for each in migrations()
    ]
    return "begin;\n\n" + "\n".join(parts) + f"\n{_CLOSE}\n\ncommit;\n"


async def migrate(connection: Connection) -> list[Migration]:
    """Apply what is missing, all of it or nothing, and return it. Safe when many call it at once.

    Raises:
        SchemaMismatch: if the database has migrations that this version does not know and can't work with.
        NotNow: another session migrates, and has done so for a minute.
    """
    async with connection.transaction():
        await connection.execute("set local statement_timeout = 0; set local search_path = pg_catalog")
        await _alone(connection)
        missing = await _missing(connection)
        await connection.execute(bounds(lock="0"))
        for each in missing:
            await connection.execute(each.sql)
            await connection.execute(
                "insert into perdure.migration (number, name, oldest) values ($1, $2, $3)",
                *(each.number, each.name, each.oldest),
            )
        await connection.execute(_CLOSE if missing else "select perdure.make_months()")
    return missing


async def _missing(connection: Connection) -> list[Migration]:
    applied = await _applied(connection)
    _refuse_newer(applied)
    return [each for each in migrations() if each.number not in applied]


async def _alone(connection: Connection) -> None:
    """Keep other migrators off until the transaction ends, where there is something to do. Where the schema is there,
    the lock is one of its tables', which needs a right on it. Everybody can hold the other lock, so nobody waits for
    it without end.
    """
    await connection.execute(bounds(lock=_PATIENCE))
    try:
        if await connection.fetchval(_MIGRATED) is None:
            await connection.execute("select pg_advisory_xact_lock($1)", _LOCK)
        elif await _missing(connection):
            await connection.execute("lock table perdure.migration in share row exclusive mode")
    except asyncpg.LockNotAvailableError:
        raise NotNow(
            f"another session has held the lock of `perdure migrate` for {_PATIENCE}: wait until that one is over, or "
            "end it. Its pid: select pid from pg_locks where granted and (locktype = 'advisory' "
            "or relation = to_regclass('perdure.migration'))"
        ) from None


async def make_months(connection: Connection) -> None:
    """Make the partitions of the months to come. The first time that takes longer than a write may."""
    async with connection.transaction():
        await connection.execute(bounds(lock="0", statement="0"))
        await connection.execute("select perdure.make_months()")


async def note_database(connection: Connection) -> None:
    """Note which database this is for the feed, so that the first follower after a restore need not write.

    Where a transaction that is open holds this up for a second, the first follower does it.
    """
    with suppress(asyncpg.LockNotAvailableError):
        async with connection.transaction():
            await connection.execute(bounds(lock="1s"))
            await connection.execute("select perdure.feed_here()")


async def check(connection: Connection) -> None:
    """Make sure that the schema is there, and that this version can work with it: its own, or a newer one that
    demands no newer workers.

    Raises:
        SchemaMismatch: if it is missing, older, or too new; the message says what to do.
    """
    applied = await _applied(connection)
    _refuse_newer(applied)
    newest = migrations()[-1].number
    if not applied:
        database = await connection.fetchval("select current_database()")
        raise SchemaMismatch(f"the database {database!r} has no perdure schema: run `perdure migrate`")
    if max(applied) < newest:
        raise SchemaMismatch(
            f"the perdure schema is at {max(applied)}, this version needs {newest}: run `perdure migrate`"
        )


async def _applied(connection: Connection) -> dict[int, int]:
    """Numbers of the migrations that were applied, and the oldest worker that each lets run."""
    if await connection.fetchval("select to_regclass('perdure.migration')") is None:
        return {}
    rows = await connection.fetch("select * from " + await _where_they_stand(connection))
    return {row["number"]: row["oldest"] for row in rows}


async def _where_they_stand(connection: Connection) -> str:
    """An app's role may read the function alone; one of an older release was given the table instead."""
    may = "select has_function_privilege(to_regprocedure('perdure.schema_version()')::oid, 'execute')"
    return "perdure.schema_version()" if await connection.fetchval(may) else "perdure.migration"


def _refuse_newer(applied: dict[int, int]) -> None:
    newest = migrations()[-1].number
    demands = {number: oldest for number, oldest in applied.items() if number > newest and oldest > newest}
    if demands:
        number = max(demands)
        raise SchemaMismatch(
            f"migration {number:04} of the perdure schema is for versions that know {max(demands.values()):04}; "
            f"the newest that this one knows is {newest:04}: install the version that made it, or a later one"
        )
