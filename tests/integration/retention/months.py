"""What the tests of the archive stand on: months long ago, with entities that finished in them, or are open still."""

from __future__ import annotations

import asyncio
import importlib
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import date
from typing import Any, TypeAlias

import asyncpg
from typer.testing import CliRunner, Result

from perdure.cli import cli
from perdure.settings import Settings

Connection: TypeAlias = "asyncpg.Connection[asyncpg.Record]"

pa: Any = importlib.import_module("pyarrow")  # it brings no types
pq: Any = importlib.import_module("pyarrow.parquet")

LONG_AGO = date(2020, 1, 1)
NAME = "2020-01"
PARTITIONS = "select count(*) from pg_class where relname in ('finished_2020_01', 'transition_2020_01')"
_TRANSITION = """
    insert into perdure.transition (lifecycle, id, generation, version, state, why, at)
    values ('order', $1, $2, $3, $4, $5, $6::date + 3)
"""
_EFFECT = """
    insert into perdure.effect
        (key, lifecycle, id, generation, effect, token, status, digest, first_at, attempt_at, deadline, receipt)
    values ($1, 'order', $2, $3, 'ship', 't', $4, 'd', now(), now(), now(), '{"number": 7}')
"""


@asynccontextmanager
async def connected(dsn: str) -> AsyncIterator[Connection]:
    """One more connection."""
    connection = await asyncpg.connect(dsn)
    try:
        yield connection
    finally:
        await connection.close()


async def finished(
    db: Connection, entity_id: str, month: date = LONG_AGO, *, generation: int = 0, effect: str | None = "done"
) -> None:
    """An entity that ran, and ended, in a month."""
    await db.execute("select perdure.make_month($1)", month)
    await db.execute(
        "insert into perdure.ident (lifecycle, id, generation, version, final) values ('order', $1, $2, 2, 'shipped') "
        "on conflict (lifecycle, id) do update set generation = excluded.generation",
        *(entity_id, generation),
    )
    await db.execute(
        "insert into perdure.finished (lifecycle, id, generation, state, why, input, created_at, finished_at) "
        "values ('order', $1, $2, 'shipped', 'Ümläut', $3, $4::date + 3, $4::date + 3)",
        *(entity_id, generation, json.dumps({"to": entity_id}), month),
    )
    for version, state in enumerate(("pending", "shipped")):
        await db.execute(_TRANSITION, entity_id, generation, version, state, f"of {entity_id}", month)
    if effect is not None:
        await db.execute(_EFFECT, key_of(entity_id, generation), entity_id, generation, effect)


async def still_open(db: Connection, entity_id: str, month: date = LONG_AGO) -> None:
    """An entity that was started in a month, and waits since."""
    await db.execute("select perdure.make_month($1)", month)
    await db.execute("insert into perdure.ident (lifecycle, id) values ('order', $1)", entity_id)
    await db.execute(
        "insert into perdure.entity (lifecycle, id, generation, state, input) values ('order', $1, 0, 'waiting', '{}')",
        entity_id,
    )
    for version, state in enumerate(("pending", "waiting")):
        await db.execute(_TRANSITION, entity_id, 0, version, state, f"of {entity_id}", month)


def key_of(entity_id: str, generation: int = 0) -> str:
    """Key of its effect."""
    return f"order/{entity_id}{f'~{generation}' if generation else ''}/ship"


async def keys(db: Connection) -> list[str]:
    """Effects on record."""
    return [row["key"] for row in await db.fetch("select key from perdure.effect order by key")]


async def everything(db: Connection) -> dict[str, list[str]]:
    """All rows of all tables of the schema, as text."""
    names = await db.fetch(
        "select relname from pg_class where relnamespace = 'perdure'::regnamespace and relkind = 'r' order by 1"
    )
    return {
        name: sorted(row[0] for row in await db.fetch(f"select x::text from perdure.{name} x")) for (name,) in names
    }


async def perdure(dsn: str, *arguments: str, given: str | None = None, **environment: str) -> Result:
    """Run `perdure` in this process."""
    told = {"PERDURE_DATABASE_URL": dsn, **environment}
    return await asyncio.to_thread(CliRunner().invoke, cli, arguments, given, told)


def settings(dsn: str, **more: Any) -> Settings:
    """Settings for a database."""
    return Settings(database_url=dsn, **more)
