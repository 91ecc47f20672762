"""Temporal's databases are made by one installation, and what somebody has used is neither taken nor made anew."""

from __future__ import annotations

import os
import re
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import TypeAlias

import asyncpg
import pytest

from perdure._machine import databases
from perdure._machine.databases import ROLE, check_connection, make_databases
from perdure._machine.folder import Folder
from perdure._machine.schemas import make_schemas
from perdure.errors import NotNow, NotPermitted, NotThisDatabase
from perdure.servers.postgres import PostgresServer
from perdure.servers.temporal_on_postgres import MAIN, VISIBILITY
from perdure.servers.temporal_programs import Programs

ROLES = f"select count(*) from pg_roles where rolname = '{ROLE}'"
RULES = f"host all {ROLE} 127.0.0.1/32 scram-sha-256\nhost all all 127.0.0.1/32 trust\n"

Admin: TypeAlias = "asyncpg.Connection[asyncpg.Record]"


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    """A PostgreSQL that trusts everybody but Temporal's role."""
    with PostgresServer(durable=False) as made:
        (made.data_directory / "pg_hba.conf").write_text(RULES)
        made.restart()
        yield made


@pytest.fixture
async def admin(server: PostgresServer) -> AsyncIterator[Admin]:
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


@pytest.fixture
def other(tmp_path: Path) -> Folder:
    """The folder of another installation."""
    (tmp_path / "other").mkdir()
    return Folder(tmp_path / "other")


def as_shop(server: PostgresServer) -> str:
    """The URL of the app's role."""
    return server.dsn().replace("postgres@", "shop@")


async def test_a_second_installation_takes_the_databases_only_when_nobody_uses_them(
    server: PostgresServer, folder: Folder, other: Folder, admin: Admin, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(databases, "_LOOKS", 2)
    database = await make_databases(server.dsn(), None, None, folder)
    temporal = await asyncpg.connect(server.dsn(MAIN).replace("postgres@", f"{ROLE}:{database.password}@"))
    with pytest.raises(NotNow, match="another `perdure up` uses Temporal's databases"):
        await make_databases(server.dsn(), None, None, other)
    assert other.password() is None
    await check_connection(database)  # the first one still has the password
    await temporal.close()
    await check_connection(await make_databases(server.dsn(), None, None, other))
    with pytest.raises(asyncpg.InvalidPasswordError):
        await check_connection(database)


@pytest.mark.parametrize("comment", ["null", "'somebody'"])
async def test_a_role_of_somebody_else_is_refused_also_where_it_may_connect(
    server: PostgresServer, folder: Folder, admin: Admin, comment: str
) -> None:
    await admin.execute(f"create role {ROLE} login password '{folder.make_password()}'")
    await admin.execute(f"comment on role {ROLE} is {comment}")
    for name in (MAIN, VISIBILITY):
        await admin.execute(f"create database {name} owner {ROLE}")
    with pytest.raises(NotThisDatabase, match=f"a role {ROLE} that `perdure up` has not made"):
        await make_databases(server.dsn(), None, None, folder)


async def test_a_role_is_made_with_its_comment_or_not_at_all(
    server: PostgresServer, folder: Folder, admin: Admin, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(databases, "_OURS", "what PostgreSQL refuses: '")
        with pytest.raises(asyncpg.PostgresSyntaxError):
            await make_databases(server.dsn(), None, None, folder)
    assert not await admin.fetchval(ROLES)
    await check_connection(await make_databases(server.dsn(), None, None, folder))


async def test_a_role_that_may_make_no_databases_is_refused_before_anything_is_made(
    server: PostgresServer, folder: Folder, admin: Admin
) -> None:
    await admin.execute("alter role shop createrole")
    with pytest.raises(NotPermitted, match="it may create no databases") as refused:
        await make_databases(as_shop(server), None, None, folder)
    assert not await admin.fetchval(ROLES)
    for line in re.findall("  (create .*;)", str(refused.value)):
        await admin.execute(line)
    assert await admin.fetchval("select count(*) from pg_database where datname like 'temporal%'") == 2


async def test_the_role_that_makes_the_databases_is_not_left_with_the_rights_of_temporals(
    server: PostgresServer, folder: Folder, admin: Admin
) -> None:
    await admin.execute("alter role shop createrole createdb")
    await admin.execute("alter database template0 rename to elsewhere")
    try:
        with pytest.raises(asyncpg.InvalidCatalogNameError):
            await make_databases(as_shop(server), None, None, folder)
    finally:
        await admin.execute("alter database elsewhere rename to template0")
    rights = f"select pg_has_role('shop', '{ROLE}', 'usage')"
    assert not await admin.fetchval(rights)
    await check_connection(await make_databases(as_shop(server), None, None, folder))
    assert not await admin.fetchval(rights)
    assert not await admin.fetchval(f"select has_database_privilege('shop', '{MAIN}', 'connect')")


@pytest.mark.usefixtures("admin")
async def test_a_password_that_was_lost_in_a_crash_is_made_anew(server: PostgresServer, folder: Folder) -> None:
    (folder.path / "temporal.password").touch()
    await check_connection(await make_databases(server.dsn(), None, None, folder))


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
