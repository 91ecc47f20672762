"""The virtual clock in PostgreSQL: nothing in the schema `perdure` of an explored database reads the real one.

The clock is the last value of a sequence, which no transaction rolls back and every snapshot sees. `sim.clock()` stands
in for `clock_timestamp()`, and `sim.now()` for `now()`: the time of the first call in the transaction. The numbers of
another sequence stand in for random UUIDs.
Functions and defaults are made again with these names; the queries of Python find `sim` first on the search path.
"""

from __future__ import annotations

import re
from datetime import datetime
from typing import TYPE_CHECKING, TypeAlias

import asyncpg

if TYPE_CHECKING:
    _Connection: TypeAlias = asyncpg.Connection[asyncpg.Record]

SEARCH_PATH = 'sim, pg_catalog, "$user", public'
"""Of every session with an explored database."""

_SCHEMA = """
    create schema sim;
    grant usage on schema sim to public;
    create sequence sim.elapsed minvalue -9223372036854775807;
    create sequence sim.uuids;
    grant select on sequence sim.elapsed to public;
    grant usage on sequence sim.uuids to public;
    create function sim.clock() returns timestamptz language sql volatile as
        $$ select timestamptz 'epoch' + last_value * interval '1 microsecond' from sim.elapsed $$;
    create function sim.gen_random_uuid() returns uuid language sql volatile as
        $$ select md5(nextval('sim.uuids')::text)::uuid $$;
    create function sim.clock_timestamp() returns timestamptz language sql volatile as $$ select sim.clock() $$;
    create function sim.now() returns timestamptz language plpgsql stable as $$ begin
        return coalesce(nullif(current_setting('sim.began', true), ''),
            set_config('sim.began', sim.clock()::text, true))::timestamptz;
    end $$;
    create function sim.transaction_timestamp() returns timestamptz language sql stable as $$ select sim.now() $$;
    create function sim.statement_timestamp() returns timestamptz language sql stable as $$ select sim.clock() $$;
"""
_CALLS = re.compile(
    r"(?<![\w.])(?:pg_catalog\.)?"
    r"(clock_timestamp|now|transaction_timestamp|statement_timestamp|gen_random_uuid)\s*\(\s*\)"
)
_WORDS = re.compile(
    r"(?<![\w.'])(?:current_(?:timestamp|date|time)|localtime(?:stamp)?|timeofday)(?![\w'])|'(?:now|today|tomorrow)'",
    re.IGNORECASE,
)
_STANDS_IN = {
    "clock_timestamp": "sim.clock()",
    "statement_timestamp": "sim.clock()",
    "gen_random_uuid": "sim.gen_random_uuid()",
}


async def install(connection: _Connection, start: datetime) -> None:
    """Give a migrated database the virtual clock, and partitions for the months around `start` alone."""
    await connection.execute(_SCHEMA)
    await set_clock(connection, start)
    for text in await _functions(connection):
        await connection.execute(virtual(text))
    for table, column, text in await _defaults(connection):
        await connection.execute(f"alter table {table} alter column {column} set default {virtual(text)}")
    months = await connection.fetch(
        "select inhrelid::regclass::text as name from pg_inherits join pg_class c on c.oid = inhparent "
        "where c.relkind = 'p' and c.relnamespace = 'perdure'::regnamespace"
    )
    for month in months:
        await connection.execute(f"drop table {month['name']}")
    await connection.execute("select perdure.make_months(1)")


async def set_clock(connection: _Connection, now: datetime) -> None:
    """Set the virtual clock."""
    await connection.execute("select setval('sim.elapsed', $1)", round(now.timestamp() * 1_000_000))


async def real_clocks(connection: _Connection) -> list[str]:
    """What in the schema reads the real clock: functions, defaults, views and conditions of indexes and triggers."""
    texts = await _functions(connection) + [text for *_, text in await _defaults(connection)]
    others = await connection.fetch(
        "select pg_get_viewdef(oid) as text from pg_class "
        "where relkind in ('v', 'm') and relnamespace = 'perdure'::regnamespace "
        "union all select pg_get_triggerdef(t.oid) from pg_trigger t join pg_class c on c.oid = t.tgrelid "
        "where c.relnamespace = 'perdure'::regnamespace "
        "union all select pg_get_constraintdef(oid) from pg_constraint where connamespace = 'perdure'::regnamespace"
    )
    texts += [row["text"] for row in others]
    return [text for text in texts if reads_real_clock(text)]


def reads_real_clock(text: str) -> bool:
    """Whether SQL, as it would run inside of a function, reads the real clock."""
    return bool(_CALLS.search(text) or _WORDS.search(text))


def escapes(text: str) -> bool:
    """Whether a query of Python's reads the real clock in spite of the search path."""
    return bool(_WORDS.search(text)) or re.search(r"pg_catalog\.\w*(now|timestamp)\(", text) is not None


def virtual(text: str) -> str:
    """The same SQL with the virtual clock.

    Raises:
        ValueError: it reads the real one in a way that nothing can stand in for.
    """
    made = _CALLS.sub(lambda found: _STANDS_IN.get(found[1], "sim.now()"), text)
    if reads_real_clock(made):
        raise ValueError(f"write now() or clock_timestamp() instead: {made}")
    return made


async def _functions(connection: _Connection) -> list[str]:
    rows = await connection.fetch(
        "select pg_get_functiondef(oid) as text from pg_proc "
        "where pronamespace = 'perdure'::regnamespace and prokind in ('f', 'p') order by oid"
    )
    return [row["text"] for row in rows]


async def _defaults(connection: _Connection) -> list[tuple[str, str, str]]:
    rows = await connection.fetch(
        "select c.oid::regclass::text as name, quote_ident(a.attname) as attribute, "
        "pg_get_expr(d.adbin, d.adrelid) as text "
        "from pg_attrdef d join pg_class c on c.oid = d.adrelid "
        "join pg_attribute a on a.attrelid = d.adrelid and a.attnum = d.adnum "
        "where c.relnamespace = 'perdure'::regnamespace and a.attgenerated = '' order by c.oid, a.attnum"
    )
    return [(row["name"], row["attribute"], row["text"]) for row in rows if reads_real_clock(row["text"])]
