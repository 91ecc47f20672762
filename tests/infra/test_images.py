"""What `infra/compose.yaml` and `infra/Dockerfile` run: fixed versions, hashes, no default passwords, no superusers."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import asyncpg
import pytest
import yaml

from perdure._services.health import Health
from perdure._worker.serving import probes, serving
from perdure.servers.ports import free_port
from perdure.servers.postgres import PostgresServer
from perdure.servers.postgres_binaries import postgres_binaries
from perdure.servers.postgres_user import server_account

INFRA = Path(__file__).parents[2] / "infra"
COMPOSE = (INFRA / "compose.yaml").read_text()
LOCKS = [INFRA.parent / "requirements.lock", *(INFRA / "locks").glob("*.lock")]
PASSWORDS = {f"{role.upper()}_PASSWORD": f"of-{role}" for role in ("owner", "worker", "columns", "console", "temporal")}


def test_no_password_has_a_default() -> None:
    named = re.findall(r"\$\{(\w*(?:PASSWORD|SECRET)\w*)([^}]*)\}", COMPOSE)
    assert named
    assert [name for name, rest in named if not rest.startswith(":?")] == []


def test_each_image_has_an_exact_version() -> None:
    services = yaml.safe_load(COMPOSE)["services"].values()
    images = {each["image"] for each in services} - {"perdure-worker"}
    given = [re.search(r":(?:\$\{\w+:-)?v?(\d+\.\d+[^}]*)\}?$", image) for image in images]
    assert len(images) > 5
    assert all(given), images
    assert re.search(
        r"^ARG PYTHON_IMAGE=python:\d+\.\d+\.\d+-slim-\w+$", (INFRA / "Dockerfile").read_text(), re.MULTILINE
    )


def test_every_package_of_an_image_has_a_hash() -> None:
    installs = re.findall(r"pip install (.*)", (INFRA / "Dockerfile").read_text())
    assert all("--require-hashes" in each or "--no-deps --no-index" in each for each in installs)
    for lock in LOCKS:
        wanted = re.split(r"\n(?=\w)", re.sub(r"^#.*\n", "", lock.read_text(), flags=re.MULTILINE).strip())
        assert wanted
        assert [each.splitlines()[0] for each in wanted if "==" not in each or "--hash=sha256:" not in each] == []


def test_a_worker_is_locked_to_the_versions_that_are_tested() -> None:
    pinned = [set(re.findall(r"^(\S+==\S+)", lock.read_text(), re.MULTILINE)) for lock in LOCKS]
    tested = pinned[LOCKS.index(INFRA.parent / "requirements.lock")]
    assert pinned[LOCKS.index(INFRA / "locks/worker.lock")] <= tested


def test_services_of_the_compose_file_are_restarted_and_its_permanent_choices_are_made() -> None:
    services = yaml.safe_load(COMPOSE)["services"]
    once = {"temporal-schema", "temporal-namespace", "app-tables", "migrate"}
    assert {name for name, each in services.items() if each.get("restart") != "unless-stopped"} == once
    assert int(services["temporal"]["environment"]["NUM_HISTORY_SHARDS"]) > 4
    [logs] = services["worker"]["volumes"]
    assert services["worker"]["environment"]["PERDURE_MAIL_LOG"].startswith(f"{logs['target']}/")
    assert logs["read_only"]


@pytest.mark.parametrize("answer", [True, False])
def test_the_image_is_healthy_while_its_process_is_ready(answer: bool) -> None:
    text = (INFRA / "Dockerfile").read_text()
    _, *arguments = json.loads(text.partition("HEALTHCHECK")[2].partition("CMD ")[2].partition("\n")[0])
    address, health = f"127.0.0.1:{free_port()}", Health()
    if answer:
        health.runs()
    with serving("PERDURE_HEALTH", address, probes(health)):
        environment = {**os.environ, "PERDURE_HEALTH": address}
        asked = subprocess.run([sys.executable, *arguments], env=environment, capture_output=True, check=False)
    assert (asked.returncode == 0) is answer


async def test_no_role_of_a_process_is_a_superuser() -> None:
    psql = postgres_binaries(server_account()) / "psql"
    with PostgresServer(durable=False) as server:
        subprocess.run(
            [psql, "--no-psqlrc", "--set=ON_ERROR_STOP=1", f"--file={INFRA / 'roles.sql'}", server.dsn()],
            env={**os.environ, **PASSWORDS},
            check=True,
            capture_output=True,
        )
        admin = await asyncpg.connect(server.dsn())
        roles = await admin.fetch(
            "select rolname, rolsuper or rolcreaterole or rolreplication or rolbypassrls as mighty, "
            "has_database_privilege(rolname, 'app', 'connect') as connects, rolpassword like 'SCRAM%' as scram "
            "from pg_authid where rolcanlogin and rolname <> 'postgres' order by rolname"
        )
        await admin.close()
    assert [tuple(each) for each in roles] == [
        ("columns", False, True, True),
        ("console", False, True, True),
        ("owner", False, True, True),
        ("temporal", False, False, True),
        ("worker", False, True, True),
    ]
