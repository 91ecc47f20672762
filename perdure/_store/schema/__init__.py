"""The schema `perdure` in the app's database. Tables are made by numbered SQL files, which are applied once each; each
function has one file, which is applied again when its text has changed.

Old workers and new ones run side by side while a deploy rolls. So a migration adds, and takes nothing away that
the release before it uses; one that must has a line `-- oldest worker: N`: from then on workers whose newest
migration is older than N do not start. The new text of a function serves the release before as well. An older release
that migrates puts no older text back.
"""

from __future__ import annotations

import asyncio
import json
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TypeAlias

import asyncpg

from perdure._store.bounds import bounds
from perdure._store.schema.files import Function, Migration, functions, migrations, order, release
from perdure.errors import InvalidSetting, NotNow, SchemaMismatch

__all__ = [
    "Applied",
    "Connection",
    "Function",
    "Migration",
    "check",
    "functions",
    "make_months",
    "migrate",
    "migrations",
    "note_database",
    "release",
    "script",
]

Connection: TypeAlias = "asyncpg.Connection[asyncpg.Record] | asyncpg.pool.PoolConnectionProxy[asyncpg.Record]"

_LOCK = 0x70657264757265  # "perdure": one migrator at a time, however many workers start
_PATIENCE = 60.0  # seconds
_TURN = 2.0  # seconds for which an application may wait behind a migration that waits for a lock
_PAUSE = 3.0  # seconds
_MIGRATED = (  # not to_regclass, which keeps in the session's cache that there is none
    "select true from pg_catalog.pg_class c join pg_catalog.pg_namespace n on n.oid = c.relnamespace "
    "where n.nspname = 'perdure' and c.relname = 'migration'"
)
_HOLDERS = """
    select string_agg(pid::text, ', ') from (
        select l.pid from pg_locks l join pg_class c on c.oid = l.relation left join pg_stat_activity a on a.pid = l.pid
        where l.granted and c.relnamespace = 'perdure'::regnamespace and l.pid <> pg_backend_pid()
            and l.database = (select oid from pg_database where datname = current_database())
        group by l.pid, a.xact_start order by a.xact_start nulls last limit 5) oldest"""
# A function may call another one whose file comes later. With another encoding than UTF8, PostgreSQL cannot store each
# text, or does not know its characters.
_BEFORE = """set local search_path = pg_catalog; set local check_function_bodies = off;
do $$ begin
    if current_setting('server_encoding') <> 'UTF8' then
        raise exception 'the database % has the encoding %, and Perdure needs UTF8: run '
            '`create database NAME encoding ''UTF8'' template template0`, copy your tables into it, and set '
            'PERDURE_DATABASE_URL to it', quote_literal(current_database()), current_setting('server_encoding')
            using errcode = 'feature_not_supported';
    end if;
end $$;"""
_NOTE_MIGRATION = "insert into perdure.migration (number, name, oldest) values ({}, {}, {})"
_NOTE_FUNCTION = (
    "insert into perdure.applied_function (name, sha256, release) values ({}, {}, {}) "
    "on conflict (name) do update set sha256 = excluded.sha256, release = excluded.release, applied_at = now()"
)
_BEGIN_FEED = "select perdure.feed_here();"  # all that is on record in a database that was just made is settled
_MAKE_MONTHS = "select perdure.make_months();"
# PostgreSQL lets everybody execute a new function: what any migration has made is closed again.
_CLOSE = "\n".join(
    f"revoke all on {what} perdure from public;"
    for what in ("all routines in schema", "all tables in schema", "schema")
)


@dataclass(frozen=True, slots=True)
class Applied:
    """What `migrate` has done.

    Attributes:
        migrations: those that were missing.
        functions: those whose text was missing or another one.
        newer: the schema is of a newer release than this one: its functions stay as they are.
    """

    migrations: list[Migration] = field(default_factory=list)
    functions: list[Function] = field(default_factory=list)
    newer: bool = False

    @property
    def anything(self) -> bool:
        """Whether the schema was changed."""
        return bool(self.migrations or self.functions)


@dataclass(frozen=True, slots=True)
class _OnRecord:
    """The record of the schema in the database.

    Attributes:
        migrations: the oldest worker that each lets run, by number.
        functions: SHA-256 by name.
        newer: there is something that a newer release has applied.
    """

    migrations: dict[int, int] = field(default_factory=dict)
    functions: dict[str, str] = field(default_factory=dict)
    newer: bool = False

    def missing(self) -> Applied:
        """What this version has to apply."""
        mine = [] if self.newer else [each for each in functions() if self.functions.get(each.name) != each.sha256]
        return Applied([each for each in migrations() if each.number not in self.migrations], mine, self.newer)


def script() -> str:
    """The whole schema as one SQL script, for Alembic, Django and others; it records what it applied."""
    parts = [
        f"-- {each.number:04} {each.name}\n{each.sql}\n"
        f"{_NOTE_MIGRATION.format(each.number, _quoted(each.name), each.oldest)};\n"
        for each in migrations()
    ]
    parts += [
        f"{each.sql}\n{_NOTE_FUNCTION.format(_quoted(each.name), _quoted(each.sha256), _quoted(release()))};\n"
        for each in functions()
    ]
    return "\n".join(["begin;", _BEFORE, "", *parts, _BEGIN_FEED, _MAKE_MONTHS, _CLOSE, "", "commit;", ""])


async def migrate(connection: Connection) -> Applied:
    """Apply what is missing, all of it or nothing, and return it. Safe when many call it at once.

    Raises:
        SchemaMismatch: if the database has migrations that this version does not know and can't work with.
        NotNow: another session migrates, or holds a table that a migration changes, and has done so for a minute.
        InvalidSetting: the encoding of the database is not UTF8.
    """
    loop = asyncio.get_running_loop()
    ends = loop.time() + _PATIENCE
    while True:
        try:
            return await _applied(connection)
        except asyncpg.LockNotAvailableError:
            if loop.time() >= ends:
                pids = await connection.fetchval(_HOLDERS)
                raise NotNow(
                    f"the schema perdure is as it was: its tables have been in use for {_PATIENCE:g} s, as by a backup "
                    f"or an open transaction (pids {pids}): run `perdure migrate` when these are over, or end them by "
                    "pg_terminate_backend"
                ) from None
        await asyncio.sleep(_PAUSE)


async def _applied(connection: Connection) -> Applied:
    async with connection.transaction():
        try:
            await connection.execute(f"set local statement_timeout = 0; {_BEFORE}")
        except asyncpg.FeatureNotSupportedError as error:
            raise InvalidSetting(error.args[0]) from None
        await _alone(connection)
        missing = await _missing(connection)
        # Who waits for a lock on a table makes all others wait: in turns with the application, not until it is free.
        await connection.execute(bounds(lock=f"{_TURN}s"))
        for migration in missing.migrations:
            await connection.execute(migration.sql)
            await connection.execute(
                _NOTE_MIGRATION.format("$1", "$2", "$3"), *(migration.number, migration.name, migration.oldest)
            )
        for function in missing.functions:
            await connection.execute(function.sql)
            await connection.execute(
                _NOTE_FUNCTION.format("$1", "$2", "$3"), *(function.name, function.sha256, release())
            )
        if missing.migrations:
            await connection.execute(_BEGIN_FEED)
        await connection.execute(_MAKE_MONTHS)
        if missing.anything:
            await connection.execute(_CLOSE)
    return missing


async def _missing(connection: Connection) -> Applied:
    found = await _on_record(connection)
    _refuse_newer(found.migrations)
    return found.missing()


async def _alone(connection: Connection) -> None:
    """Keep other migrators off until the transaction ends, where there is something to do. Where the schema is there,
    the lock is one of its tables', which needs a right on it. Everybody can hold the other lock, so nobody waits for
    it without end.
    """
    await connection.execute(bounds(lock=f"{_PATIENCE}s"))
    try:
        if await connection.fetchval(_MIGRATED) is None:
            await connection.execute("select pg_advisory_xact_lock($1)", _LOCK)
        elif (await _missing(connection)).anything:
            await connection.execute("lock table perdure.migration in share row exclusive mode")
    except asyncpg.LockNotAvailableError:
        raise NotNow(
            f"another session has held the lock of `perdure migrate` for {_PATIENCE:g} s: wait until that one is over, "
            "or end it. Its pid: select pid from pg_locks where granted and (locktype = 'advisory' "
            "or relation = to_regclass('perdure.migration'))"
        ) from None


async def make_months(connection: Connection) -> None:
    """Make the partitions of the months to come. The first time that takes longer than a write may."""
    async with connection.transaction():
        await connection.execute(bounds(lock="0", statement="0"))
        await connection.execute(_MAKE_MONTHS)


async def note_database(connection: Connection) -> None:
    """Note which database this is for the feed, so that the first follower after a restore need not write.

    Where a transaction that is open holds this up for a second, the first follower does it.
    """
    with suppress(asyncpg.LockNotAvailableError):
        async with connection.transaction():
            await connection.execute(bounds(lock="1s"))
            await connection.execute(_BEGIN_FEED)


async def check(connection: Connection) -> None:
    """Make sure that the schema is there, and that this version can work with it: its own, or a newer one that
    demands no newer workers.

    Raises:
        SchemaMismatch: if it is missing, older, or too new; the message has the way out.
    """
    found = await _on_record(connection)
    _refuse_newer(found.migrations)
    if not found.migrations:
        database = await connection.fetchval("select current_database()")
        raise SchemaMismatch(f"the database {database!r} has no perdure schema: run `perdure migrate`")
    newest = migrations()[-1].number
    if max(found.migrations) < newest:
        raise SchemaMismatch(
            f"the perdure schema is at {max(found.migrations)}, this version needs {newest}: run `perdure migrate`"
        )
    if others := found.missing().functions:
        more = f" and {len(others) - 1} more" if len(others) > 1 else ""
        raise SchemaMismatch(
            f"functions of the perdure schema are not those of this version ({others[0].name}{more}): "
            "run `perdure migrate`"
        )


async def _on_record(connection: Connection) -> _OnRecord:
    """What was applied, as a role may read it that has no right on a table."""
    if await connection.fetchval(_MIGRATED) is None:
        return _OnRecord()
    found = json.loads(await connection.fetchval("select perdure.schema_version()::text"))
    applied = {each["number"]: each["oldest"] for each in found["migrations"]}
    releases = {each["release"] for each in found["functions"]}
    return _OnRecord(
        applied,
        {each["name"]: each["sha256"] for each in found["functions"]},
        max(applied, default=0) > migrations()[-1].number or any(order(each) > order(release()) for each in releases),
    )


def _refuse_newer(applied: dict[int, int]) -> None:
    newest = migrations()[-1].number
    demands = {number: oldest for number, oldest in applied.items() if number > newest and oldest > newest}
    if demands:
        number = max(demands)
        raise SchemaMismatch(
            f"migration {number:04} of the perdure schema is for versions that have {max(demands.values()):04}; "
            f"the newest that this one has is {newest:04}: install the version that made it, or a later one"
        )


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
