"""A password comes from a file that PGPASSFILE or the URL names, and may change while connections are made."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import asyncpg
import pytest

from perdure._store.postgres import Database
from perdure.errors import UnusableFile
from perdure.servers.postgres import PostgresServer

RULES = "host all shop_worker 127.0.0.1/32 scram-sha-256\nhost all postgres 127.0.0.1/32 trust\n"


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    """PostgreSQL that asks one role for its password."""
    with PostgresServer(durable=False) as made:
        rules = made.data_directory / "pg_hba.conf"
        rules.write_text(RULES)
        asyncio.run(as_admin(made, "select pg_reload_conf()", "create role shop_worker login"))
        yield made


async def as_admin(server: PostgresServer, *statements: str) -> None:
    """Run statements as the superuser."""
    admin = await asyncpg.connect(server.dsn())
    for statement in statements:
        await admin.execute(statement)
    await admin.close()


@pytest.mark.parametrize("named", ["in the URL", "by PGPASSFILE"])
async def test_each_new_connection_reads_it_again(
    server: PostgresServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, named: str
) -> None:
    file = tmp_path / "pgpass"
    file.touch(0o600)
    url = server.dsn().replace("postgres@", "shop_worker@")
    if named == "in the URL":
        url += f"?passfile={file}"
    else:
        monkeypatch.setenv("PGPASSFILE", str(file))
    database = Database(url)
    for password in ("first", "second"):
        await as_admin(server, f"alter role shop_worker password '{password}'")
        file.write_text(f"127.0.0.1:*:*:shop_worker:{password}\n")
        pool = await database.open()
        assert await pool.fetchval("select current_user::text") == "shop_worker"
        await pool.expire_connections()
    await database.close()


@pytest.mark.filterwarnings("ignore:password file")
@pytest.mark.parametrize(("mode", "why"), [(0o644, "has mode 0644.*chmod 600"), (None, "No such file")])
async def test_one_that_others_may_read_or_that_is_missing_is_named(
    server: PostgresServer, tmp_path: Path, mode: int | None, why: str
) -> None:
    file = tmp_path / "pgpass"
    if mode is not None:
        file.write_text("*:*:*:*:first\n")
        file.chmod(mode)
    url = server.dsn().replace("postgres@", "shop_worker@") + f"?passfile={file}"
    with pytest.raises(UnusableFile, match=f"^passfile='.*pgpass'.*{why}"):
        await Database(url).open()
