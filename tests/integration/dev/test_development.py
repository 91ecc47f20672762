"""`perdure dev` keeps data, reloads, goes on after its servers were lost, and refuses what is not for development."""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import asyncpg
import pytest

from infra.browsing import Browser
from perdure._dev.binding import namespace_of
from perdure.errors import NotThisDatabase
from perdure.servers.ports import free_port
from perdure.servers.postgres import PostgresServer
from perdure.servers.temporal import TemporalServer
from tests.apps.bodies import app
from tests.conftest import as_admin
from tests.deadline import until
from tests.developing import RUNS, Developing, developing, left
from tests.world import World

SHOP = """
from enum import StrEnum
from perdure import Lifecycle, state
from temporalio import workflow


class Stage(StrEnum):
    NEW = "new"
    PAID = state("paid", final=True)


@workflow.defn(name="order")
class Order(Lifecycle[str, Stage]):
    def __init__(self) -> None:
        self.payments: list[str] = []

    @workflow.run
    async def run(self, item: str) -> None:
        await self.wait_for(lambda: bool(self.payments))
        await self.enter(Stage.PAID)

    @workflow.signal
    def pay(self, by: str) -> None:
        self.payments.append(by)
"""


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    """A project with one lifecycle, which waits until it is paid."""
    (tmp_path / "shop.py").write_text(SHOP)
    return tmp_path


@pytest.fixture
async def servers(postgres: PostgresServer, temporal: TemporalServer) -> AsyncIterator[dict[str, str]]:
    """An empty database, and Temporal, as the environment names them."""
    name = f"dev_{os.urandom(6).hex()}"
    await as_admin(postgres, f"create database {name}")
    yield {"PERDURE_DATABASE_URL": postgres.dsn(name), "TEMPORAL_ADDRESS": temporal.address}
    await as_admin(postgres, f"drop database {name} with (force)")


async def call(dev: Developing, statement: str) -> object:
    connection = await asyncpg.connect(dev.environment()["PERDURE_DATABASE_URL"])
    try:
        return await connection.fetchval(statement)
    finally:
        await connection.close()


async def is_in(dev: Developing, state: str, number: int = 1) -> None:
    async def reached() -> bool:
        status = await call(dev, f"select perdure.status('order', '{number}')->>'state'")
        return status == state

    await until(reached, f"order {number} in the state {state}")


async def start(dev: Developing, number: int = 1) -> None:
    assert await call(dev, f"select perdure.start('order', '{number}', '\"book\"')") == "started"
    await is_in(dev, "new", number)


async def pay(dev: Developing, number: int = 1) -> None:
    assert await call(dev, f"select perdure.signal('order', '{number}', 'pay', '\"ann\"')") == "sent"
    await is_in(dev, "paid", number)


async def test_the_servers_keep_their_data_and_their_ports_over_a_restart(shop: Path) -> None:
    async with developing(shop, "shop") as dev:
        await dev.writes(RUNS)
        await dev.writes("perdure.console: running")
        await start(dev)
        first = dev.environment()
        console = re.search(r"Console +(http://127\.0\.0\.1:\d+/) \(for development", dev.text)
        assert console
        assert "order/1" in (await asyncio.to_thread(Browser, f"{console[1]}list?lifecycle=order")).words
        assert await dev.stop() == 0
    async with developing(shop, "shop") as dev:
        await dev.writes(RUNS)
        await pay(dev)
        assert dev.environment() == first
        assert dev.text.count(console[0]) == 1
        assert re.search(r"Web UI +http://127.0.0.1:\d+/namespaces/dev-[0-9a-f]{8}/workflows", dev.text)


async def test_open_orders_go_on_after_the_file_of_temporal_was_deleted(shop: Path) -> None:
    async with developing(shop, "shop") as dev:
        await dev.writes(RUNS)
        await start(dev)
    for file in (shop / ".perdure").glob("temporal.db*"):
        file.unlink()
    async with developing(shop, "shop") as dev:
        await dev.writes("Temporal was started anew: 1 open lifecycles go on from the database")
        await dev.writes(RUNS)
        await pay(dev)


async def test_a_database_that_was_made_anew_begins_anew_beside_the_old_workflows(shop: Path) -> None:
    async with developing(shop, "shop") as dev:
        await dev.writes(RUNS)
        await start(dev)
        before = dev.environment()["TEMPORAL_NAMESPACE"]
    shutil.rmtree(shop / ".perdure" / "postgres")
    async with developing(shop, "shop") as dev:
        await dev.writes(RUNS)
        assert dev.environment()["TEMPORAL_NAMESPACE"] != before
        await start(dev)
        await pay(dev)


async def test_two_projects_share_one_temporal(shop: Path, servers: dict[str, str], postgres: PostgresServer) -> None:
    second = shop / "second"
    second.mkdir()
    (second / "shop.py").write_text(SHOP)
    await as_admin(postgres, "create database dev_second")
    other = {**servers, "PERDURE_DATABASE_URL": postgres.dsn("dev_second")}
    try:
        async with (
            developing(shop, "shop", environment=servers) as one,
            developing(second, "shop", environment=other) as two,
        ):
            await one.writes(RUNS)
            await two.writes(RUNS)
            await asyncio.gather(start(one), start(two))
            await pay(one)
            await is_in(two, "new")
    finally:
        await as_admin(postgres, "drop database dev_second with (force)")


async def test_a_worker_that_was_killed_is_started_again(shop: Path, servers: dict[str, str]) -> None:
    async with developing(shop, "shop", environment=servers) as dev:
        await dev.writes(RUNS)
        await start(dev)
        os.kill(dev.pid("worker"), signal.SIGKILL)
        await dev.writes("worker was ended by SIGKILL; it is started again")
        await dev.writes(RUNS, 2)
        await pay(dev)


async def test_the_worker_runs_what_was_saved_last_and_waits_for_code_that_can_be_run(
    shop: Path, servers: dict[str, str]
) -> None:
    async with developing(shop, "shop", environment=servers) as dev:
        await dev.writes(RUNS)
        (shop / "shop.py").write_text(SHOP.replace("class Stage(", "class Stage)"))
        await dev.writes("changed: shop.py")
        await dev.writes("SyntaxError")
        await dev.writes("worker ended with status 2; it is started again when a file changes")
        (shop / "shop.py").write_text(SHOP.replace('name="order"', 'name="parcel"'))
        await dev.writes("running | lifecycles=parcel")


async def test_tables_are_prepared_before_each_start_and_a_failure_is_tried_again_after_a_change(
    shop: Path, servers: dict[str, str]
) -> None:
    make = "import sys, pathlib; sys.exit(0 if pathlib.Path('tables.sql').exists() else 3)"
    (shop / "tables.py").write_text(make)
    async with developing(shop, "shop", "--prepare", "python -m tables", environment=servers) as dev:
        await dev.writes("python -m tables ended with status 3; it is run again when a file changes")
        assert RUNS not in dev.text
        (shop / "tables.sql").write_text("")
        await dev.writes("changed: tables.sql")
        await dev.writes(RUNS)


async def test_commands_beside_the_worker_run_and_end_with_it(shop: Path, servers: dict[str, str]) -> None:
    (shop / "web.py").write_text("import os, time\nprint('serves', os.environ['TEMPORAL_NAMESPACE'], flush=True)\n")
    with (shop / "web.py").open("a") as file:
        file.write("import threading\nthreading.Event().wait()\n")
    async with developing(shop, "shop", "--beside", "python -m web", environment=servers) as dev:
        await dev.writes(RUNS)
        await dev.writes(f"serves {dev.environment()['TEMPORAL_NAMESPACE']}")
        os.kill(dev.pid("web"), signal.SIGKILL)
        await dev.writes("serves", 2)


async def test_nothing_is_left_after_it_was_killed(shop: Path) -> None:
    async with developing(shop, "shop") as dev:
        await dev.writes(RUNS)
        dev.process.kill()
        await until(lambda: left(shop) == [], "the end of servers and worker")


async def test_without_an_app_and_a_console_only_the_servers_run(shop: Path, servers: dict[str, str]) -> None:
    async with developing(shop, "--no-console", environment=servers) as dev:
        await dev.writes("In another terminal")
        assert "Console" not in dev.text
        status, output = await dev.run("perdure.cli", "status")
        assert status == 0, output


async def test_a_second_one_in_the_same_folder_is_refused(shop: Path, servers: dict[str, str]) -> None:
    async with developing(shop, environment=servers) as dev:
        await dev.writes("In another terminal")
        status, output = await dev.run("perdure.cli", "dev")
        assert status == 1
        assert f"`perdure dev` runs already in {shop} (process {dev.process.pid})" in output


async def test_a_database_that_works_with_a_namespace_of_no_development_is_refused(shop: Path, world: World) -> None:
    async with world.worker(app):
        pass  # its start has bound the database to the namespace
    async with developing(shop, environment=world.environment()) as dev:
        assert await dev.ended() == 1
    assert "this database works with the namespace 'default' of Temporal, so it is not one of development" in dev.text


async def test_a_database_that_is_refused_is_not_migrated(world: World) -> None:
    older = "update perdure.applied_function set sha256 = 'older', release = '0.0.1' where name like 'status%'"
    await world.db.execute(f"update perdure.database set mark = 'm', namespace = 'production'; {older}")
    before = await world.db.fetch("select * from perdure.applied_function order by name")
    with pytest.raises(NotThisDatabase, match="the namespace 'production'"):
        await namespace_of(world.config)
    assert await world.db.fetch("select * from perdure.applied_function order by name") == before


@pytest.mark.parametrize(
    ("name", "value", "shown"),
    [
        ("PERDURE_DATABASE_URL", "postgresql://ann:secret@db.example.com/app", "postgresql://ann@db.example.com/app"),
        ("PERDURE_DATABASE_URL", "postgresql:///app?host=192.0.2.1", "postgresql:///app"),
        ("TEMPORAL_ADDRESS", "temporal.example.com:7233", "temporal.example.com:7233"),
        ("TEMPORAL_ADDRESS", "192.0.2.1:7233", "192.0.2.1:7233"),
    ],
)
async def test_a_server_on_another_machine_is_refused(shop: Path, name: str, value: str, shown: str) -> None:
    async with developing(shop, environment={name: value}) as dev:
        assert await dev.ended() == 2
    assert f"{name}={shown}: `perdure dev` uses servers on this machine only" in dev.text
    assert "secret" not in dev.text


@pytest.mark.parametrize(
    ("command", "why"),
    [
        ("nosuchprogram --port 1", "there is no program 'nosuchprogram'"),
        ("'open", "No closing quotation"),
        ("", "empty"),
    ],
)
async def test_a_command_that_can_not_be_run_is_named(
    shop: Path, servers: dict[str, str], command: str, why: str
) -> None:
    async with developing(shop, "shop", "--beside", command, environment=servers) as dev:
        assert await dev.ended() == 2
    assert why in dev.text


async def test_a_postgres_that_does_not_run_is_named(shop: Path, servers: dict[str, str]) -> None:
    url = f"postgresql://ann:secret@127.0.0.1:{free_port()}/app"
    async with developing(shop, environment=servers | {"PERDURE_DATABASE_URL": url}) as dev:
        assert await dev.ended() == 1
    assert f"no PostgreSQL answers at {url.replace(':secret', '')}" in dev.text
    assert "or set PERDURE_DATABASE_URL" in dev.text
    assert "secret" not in dev.text
