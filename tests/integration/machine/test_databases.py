"""Temporal's databases are made by one installation, and what somebody has used is neither taken nor made anew."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import asyncpg
import pytest

from perdure._machine.databases import ROLE, make_databases, make_schemas
from perdure._machine.folder import Folder
from perdure.errors import NotPermitted
from perdure.servers.postgres import PostgresServer
from perdure.servers.temporal_on_postgres import MAIN, VISIBILITY
from perdure.servers.temporal_programs import Programs

RULES = f"host all {ROLE} 127.0.0.1/32 scram-sha-256\nhost all all 127.0.0.1/32 trust\n"


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    """A PostgreSQL that trusts everybody but Temporal's role."""
    with PostgresServer(durable=False) as made:
        (made.data_directory / "pg_hba.conf").write_text(RULES)
        made.restart()
        yield made


@pytest.fixture
async def admin(server: PostgresServer) -> AsyncIterator[asyncpg.Connection[asyncpg.Record]]:
    """A superuser. Afterwards nothing of Temporal is left."""
    connection = await asyncpg.connect(server.dsn())
    await connection.execute("create role shop login")
    yield connection
    for name in (MAIN, VISIBILITY):
        await connection.execute(f"drop database if exists {name} with (force)")
    await connection.execute(f"drop role if exists {ROLE}")
    await connection.execute("drop role shop")
    await connection.close()


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    """The folder of an installation."""
    return Folder(tmp_path)


def tool(folder: Path, script: str) -> Programs:
    """Programs with a tool that runs a script."""
    program = folder / "tool"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o700)
    return Programs(program, program, "1.32.0")


@pytest.mark.usefixtures("admin")
async def test_ctrl_c_in_a_terminal_does_not_end_the_tool_in_the_middle_of_a_schema(
    server: PostgresServer, folder: Folder
) -> None:
    database = await make_databases(server.dsn(), None, None, folder)
    for name in (MAIN, VISIBILITY):
        await made_by_temporal(server.dsn(name))
    await make_schemas(tool(folder.path, f"cut -d' ' -f6 /proc/self/stat > {folder.path}/session"), database)
    assert (folder.path / "session").read_text().strip() not in ("", str(os.getsid(0)))


@pytest.mark.usefixtures("admin")
async def test_a_schema_that_temporal_has_used_stays_whatever_the_tool_reports(
    server: PostgresServer, folder: Folder
) -> None:
    database = await make_databases(server.dsn(), None, None, folder)
    await made_by_temporal(server.dsn(MAIN))
    fails = """echo 'ERROR Unable to update {"error": "no \\"rights\\"", "at": "x.go:1"}' >&2; exit 1"""
    with pytest.raises(NotPermitted, match=r'^tool update-schema of temporal: no "rights"$'):
        await make_schemas(tool(folder.path, fails), database)
    connection = await asyncpg.connect(server.dsn(MAIN))
    assert await connection.fetchval("select count(*) from shards") == 1
    await connection.close()


async def made_by_temporal(dsn: str) -> None:
    """Make a schema that a server has used."""
    connection = await asyncpg.connect(dsn)
    await connection.execute(f"set role {ROLE}; set search_path = public")
    for table in ("schema_version", "shards"):
        await connection.execute(f"create table {table} as select 1 as one")
    await connection.close()
