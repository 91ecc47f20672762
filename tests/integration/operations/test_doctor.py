"""`perdure doctor` names what is wrong, and the command that mends it; where nothing is, it says so and ends with 0."""

from __future__ import annotations

import json
import re
import secrets
from datetime import UTC, datetime
from functools import partialmethod
from pathlib import Path
from typing import Any

import pytest

from infra.certificates import Authority, certificate, server_context
from infra.pgbouncer import PgBouncer
from infra.secured import Files, behind_tls
from perdure._operations.doctor import clocks
from perdure._operations.doctor.checks import CHECKS
from perdure._store.connecting import weaknesses
from perdure._store.postgres import Database
from perdure.servers.ports import free_port
from perdure.servers.postgres import PostgresServer
from tests.apps.bodies import app
from tests.command import APP, perdure
from tests.world import World

MAIL = "workers.comments.app:app"


class Examined:
    """What `perdure doctor --json` said."""

    def __init__(self, status: int, output: str) -> None:
        self.status = status
        self.checks: dict[str, dict[str, Any]] = {each["check"]: each for each in map(json.loads, output.splitlines())}

    def result(self, check: str) -> str:
        return str(self.checks[check]["result"])

    def problem(self, check: str) -> tuple[str, str]:
        """What is wrong last, and what mends it."""
        problem = self.checks[check]["problems"][-1]
        return problem["what"], problem["mend"]


async def doctor(world: World, *arguments: str, **environment: str) -> Examined:
    end = await perdure(world, "doctor", "--json", *arguments, **environment)
    return Examined(end.exit_code, end.stdout)


@pytest.fixture
def durable(monkeypatch: pytest.MonkeyPatch) -> None:
    """The server of the tests has fsync=off, which is a finding."""

    async def none_of_them(connection: Any) -> list[str]:
        assert await weaknesses(connection)
        return []

    monkeypatch.setattr("perdure._operations.doctor.database_server.weaknesses", none_of_them)


@pytest.mark.usefixtures("durable")
async def test_an_installation_that_works_passes_every_check(world: World) -> None:
    async with world.worker(app):
        found = await doctor(world, *APP)
        assert found.status == 0, found.checks
        assert list(found.checks) == [each.name for each in CHECKS]
        assert {found.result(name) for name in found.checks if name != "roles"} == {"ok"}
        assert found.problem("roles")[0].endswith("is a superuser: whoever takes over a worker has the whole server")
    shown = (await perdure(world, "doctor")).stdout
    assert "ok    clocks\n" in shown
    assert "hint  roles: " in shown
    assert "-     checks of the application: left out, it needs --app" in shown


async def test_each_finding_names_what_mends_it(world: World, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    async with world.worker(app):
        await world.db.execute("update perdure.database set stopped = 'it is a copy'")
    monkeypatch.setattr("perdure._operations.doctor.clocks.MOST", -clocks.MOST)
    monkeypatch.setattr("perdure._operations.doctor.temporal_server.OLDEST", (9, 0))
    monkeypatch.setattr("perdure._operations.doctor.database_server.OLDEST", 99)
    monkeypatch.setattr("perdure._operations.doctor.database_tls.is_remote", lambda peer: True)
    monkeypatch.setattr("perdure._operations.doctor.temporal_tls._is_here", lambda host: False)
    found = await doctor(
        world,
        *("--app", MAIL),
        PERDURE_RECONCILIATION_GRAC="1",
        PERDURE_MAIL_LOG=str(tmp_path / "mail.log"),
        PERDURE_MAIL_SECRET=secrets.token_hex(32),
    )
    assert found.status == 1
    mends = {
        "settings": "export PERDURE_RECONCILIATION_GRACE=... in place of PERDURE_RECONCILIATION_GRAC",
        "PostgreSQL": "upgrade PostgreSQL",
        "TLS to PostgreSQL": "sslmode=verify-full",
        "Temporal": "upgrade the Temporal server",
        "TLS to Temporal": "export TEMPORAL_TLS=true",
        "binding of database and Temporal": "perdure database claim",
        "clocks": "timedatectl set-ntp true",
        "checks of the application": "export PERDURE_MAIL_LOG=FILE",
    }
    for check, mend in mends.items():
        assert mend in found.problem(check)[1], check


async def test_a_role_without_rights_is_told_which_ones_and_who_grants_them(world: World) -> None:
    role = f"shop_{secrets.token_hex(4)}"
    await world.db.execute(f"create role {role} login")
    try:
        found = await doctor(world, PERDURE_DATABASE_URL=world.dsn.replace("//postgres@", f"//{role}@"))
    finally:
        await world.db.execute(f"drop role {role}")
    assert found.status == 1
    assert (
        found.problem("PostgreSQL")[1]
        == "psql -c 'alter system set full_page_writes = on' -c 'select pg_reload_conf()'"
    )
    assert found.problem("schema")[1] == f"perdure grant {role} --as worker"


@pytest.mark.usefixtures("durable")
async def test_the_url_of_another_role_that_leads_elsewhere_is_named(world: World) -> None:
    elsewhere = world.postgres.dsn("postgres")
    found = await doctor(world, PERDURE_COLUMN_DATABASE_URL=world.dsn, PERDURE_ERASURE_DATABASE_URL=elsewhere)
    assert found.status == 1
    assert found.problem("database of other roles") == (
        "PERDURE_ERASURE_DATABASE_URL leads to another database than PERDURE_DATABASE_URL",
        "write the same server and database into both",
    )


async def test_without_servers_or_schema_the_rest_is_checked(
    world: World, postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Database, "open", partialmethod(Database.open, patience=0.5))
    nowhere = f"127.0.0.1:{free_port()}"
    found = await doctor(world, PERDURE_DATABASE_URL=f"postgresql://{nowhere}/x")
    assert found.status == 1
    assert found.result("connection to PostgreSQL") == "failed"
    assert found.result("Temporal") == "ok"
    assert found.result("schema") == "left out"

    name = f"empty_{secrets.token_hex(4)}"
    await world.db.execute(f"create database {name}")
    found = await doctor(world, PERDURE_DATABASE_URL=postgres.dsn(name), TEMPORAL_ADDRESS=nowhere)
    assert found.status == 1
    assert found.problem("schema")[1] == "perdure migrate"
    assert found.result("roles") == found.result("Temporal") == "left out"
    assert nowhere in found.problem("connection to Temporal")[0]


@pytest.mark.usefixtures("durable")
async def test_a_pooler_is_seen(world: World, postgres: PostgresServer) -> None:
    database = world.dsn.rpartition("/")[2]
    with PgBouncer(postgres, default_pool_size="4") as bouncer:
        found = await doctor(world, PERDURE_DATABASE_URL=bouncer.dsn(database))
    assert found.status == 0
    assert found.problem("PgBouncer")[1] == "set PERDURE_DATABASE_URL of the workers to PostgreSQL itself"


@pytest.mark.usefixtures("durable")
async def test_certificates_that_end_soon_or_have_ended_are_named(
    world: World, postgres: PostgresServer, tmp_path: Path
) -> None:
    authority, files, other = Authority(), Files(tmp_path / "client"), Files(tmp_path / "other")
    for each in (files, other):
        each.write(authority, authority.issue("worker"))
    other.cert.write_bytes(certificate(datetime(2020, 2, 3, 4, 5, tzinfo=UTC)))
    other.ca.write_bytes(certificate(datetime(2020, 1, 1, tzinfo=UTC)) + certificate(datetime(2090, 1, 1, tzinfo=UTC)))
    context = server_context(authority.issue("server"), authority, tmp_path)
    async with (
        behind_tls(f"127.0.0.1:{postgres.port}", context, postgres=True) as database,
        behind_tls(world.temporal.address, context) as server,
    ):
        address = f"127.0.0.1:{server.port}"
        found = await doctor(
            world,
            PERDURE_DATABASE_URL=files.url(world.dsn, database.port),
            PERDURE_COLUMN_DATABASE_URL=other.url(world.dsn, database.port),
            **{**files.temporal(), "TEMPORAL_ADDRESS": address},
        )
    assert found.status == 1
    problems = found.checks["certificates"]["problems"]
    named = {each["what"].partition(" ends on ")[0] for each in problems if " ends on " in each["what"]}
    assert named == {
        f"the certificate in sslcert={str(files.cert)!r}",
        f"the certificate in sslrootcert={str(files.ca)!r}",
        f"the certificate of PostgreSQL at 127.0.0.1:{database.port}",
        "the client certificate for Temporal",
        "the certificate of Temporal's authority (TEMPORAL_TLS_SERVER_CA_CERT_PATH)",
        f"the certificate of Temporal at {address}",
    }
    assert all(re.search(r" UTC, in \d+ hours$", each["what"]) for each in problems if " ends on " in each["what"])
    [ended] = [each["what"] for each in problems if each["serious"]]
    assert ended == f"the certificate in sslcert={str(other.cert)!r} ended on 2020-02-03 04:05 UTC"
