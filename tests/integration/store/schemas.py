"""Empty databases for the schema, and all that the system catalogs hold of it."""

from __future__ import annotations

import asyncio
import os
import secrets
import sys
from collections.abc import AsyncIterator
from typing import Any

import asyncpg
import pytest

from perdure.servers.postgres import PostgresServer
from tests.deadline import in_time
from tests.integration.store.stores import Connection, run_on

CATALOG = {
    "columns": """
        select table_name, column_name, data_type, column_default, is_nullable, collation_name, is_identity
        from information_schema.columns where table_schema = 'perdure'""",
    "relations": """
        select relname, relkind, reloptions::text, relacl::text, pg_get_expr(relpartbound, oid)
        from pg_class where relnamespace = 'perdure'::regnamespace""",
    "constraints": """
        select conrelid::regclass::text, conname, pg_get_constraintdef(oid)
        from pg_constraint where connamespace = 'perdure'::regnamespace""",
    "indexes": "select indexname, indexdef from pg_indexes where schemaname = 'perdure'",
    "functions": """
        select pg_get_functiondef(oid), proacl::text from pg_proc where pronamespace = 'perdure'::regnamespace""",
    "rights": "select nspacl::text from pg_namespace where nspname = 'perdure'",
    "migrations": "select number, name, oldest from perdure.migration",
    "applied functions": "select name, sha256, release from perdure.applied_function",
}


@pytest.fixture
async def empty(postgres: PostgresServer) -> AsyncIterator[str]:
    """URL of a database in which there is nothing."""
    name = "empty_" + secrets.token_hex(6)
    await run_on(postgres.dsn(), f"create database {name} template template1")
    yield postgres.dsn(name)
    await run_on(postgres.dsn(), f"drop database {name} with (force)")


@pytest.fixture
async def blank(empty: str) -> AsyncIterator[Connection]:
    """A connection to it."""
    connection = await asyncpg.connect(empty)
    yield connection
    await connection.close()


async def catalog(connection: Connection) -> dict[str, list[tuple[Any, ...]]]:
    """All that the system knows of the schema."""
    return {
        name: sorted((tuple(row) for row in await connection.fetch(query)), key=repr) for name, query in CATALOG.items()
    }


async def command(dsn: str, *arguments: str) -> tuple[int, str, str]:
    """Run `perdure`; exit status, standard output, standard error."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "perdure.cli", *arguments),
        env={**os.environ, "PERDURE_DATABASE_URL": dsn},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    said, complained = await in_time(process.communicate())
    assert process.returncode is not None
    return process.returncode, said.decode(), complained.decode()
