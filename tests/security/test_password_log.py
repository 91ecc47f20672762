"""A password that Perdure gives a role stands in no log of PostgreSQL, and signs in."""

from __future__ import annotations

from pathlib import Path

import asyncpg
import pytest

from perdure._machine.databases import ROLE, make_databases
from perdure._machine.folder import Folder
from perdure.servers.postgres import PostgresServer
from perdure.servers.temporal_on_postgres import MAIN
from tests.deadline import until

RULES = f"host all {ROLE} 127.0.0.1/32 scram-sha-256\nhost all postgres 127.0.0.1/32 trust\n"


async def test_the_password_of_temporals_role_is_not_logged(tmp_path: Path) -> None:
    folder = Folder(tmp_path / "state")
    folder.path.mkdir(mode=0o700)
    with PostgresServer(durable=False) as server:
        (server.data_directory / "pg_hba.conf").write_text(RULES)
        admin = await asyncpg.connect(server.dsn())
        for statement in ("alter system set log_statement = 'all'", "select pg_reload_conf()"):
            await admin.execute(statement)

        async def logs_all() -> bool:
            return bool(await admin.fetchval("show log_statement") == "all")

        await until(logs_all, "PostgreSQL logs statements")
        database = await make_databases(server.dsn(), None, None, folder)
        kept = await admin.fetchval("select rolpassword from pg_authid where rolname = $1", ROLE)
        await admin.close()
        log = server.log_file.read_text(errors="replace")
        assert f"create role {ROLE} login" in log
        assert kept in log
        assert database.password not in log
        assert folder.password() == database.password
        url = server.dsn(MAIN).replace("postgres@", f"{ROLE}@")
        opened = await asyncpg.connect(url, password=database.password)
        assert await opened.fetchval("select session_user::text") == ROLE
        await opened.close()
        with pytest.raises(asyncpg.InvalidPasswordError):
            await asyncpg.connect(url, password=kept)
