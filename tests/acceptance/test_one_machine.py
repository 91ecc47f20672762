"""`perdure up`: whatever is killed, nothing is lost and nothing happens twice; and its guide to a restore is right."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import sys
from asyncio.subprocess import DEVNULL
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import asyncpg
import psutil
import pytest

from infra.certificates import Authority, server_context
from infra.clusters import base_backup, clusters_folder, recover_to
from infra.needs import is_needed
from infra.secured import Files, behind_tls
from perdure._machine.databases import make_databases
from perdure._machine.folder import Folder
from perdure._machine.schemas import make_schemas
from perdure.servers.ports import free_port, is_free
from perdure.servers.postgres import PostgresServer
from perdure.servers.temporal_on_postgres import MAIN, schema_commands, tool_environment
from perdure.servers.temporal_programs import obtain_programs
from tests.acceptance.hold import hold_tables
from tests.counterparty import Counterparty
from tests.deadline import in_time, until, until_count
from tests.developing import Developing, clean_environment, developing

ROOT = Path(__file__).parents[2]
GUIDE = ROOT / "docs" / "one-machine.md"
PERDURE_UP = (sys.executable, "-m", "perdure.cli", "up")
BOOKINGS = "tests.apps.bodies:app"
EACH = 20
KINDS = ("lookup", "lookup-inline")
TABLE = "create table booking (id text primary key, state text not null default 'pending')"
READY = "perdure.up: ready"
AT_ITS_END = "select count(*) from perdure.ident where final = 'done'"


@pytest.fixture(scope="module")
def postgres() -> Iterator[PostgresServer]:
    """A PostgreSQL with contrib, which pip's has not: Temporal's schema needs an extension of it."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/postgres"))
    extension = "/usr/share/postgresql/*/extension/btree_gin.control"
    if not found or not list(Path("/").glob(extension[1:])):
        missing = f"no PostgreSQL with contrib: there is no {extension}. Install Debian's package postgresql"
        pytest.fail(missing) if is_needed("postgresql") else pytest.skip(missing)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PERDURE_TEST_POSTGRES_BIN", str(found[-1].parent))
        with PostgresServer(durable=False) as server:
            asyncio.run(executed(server.dsn(), "create role shop login"))
            yield server


@pytest.fixture
async def machine(postgres: PostgresServer, tmp_path: Path) -> AsyncIterator[Machine]:
    """A machine on which nothing of Perdure runs yet."""
    await executed(postgres.dsn(), "create database shop owner shop")
    await executed(
        postgres.dsn(), "alter database shop set jit = on"
    )  # PostgreSQL's default, which this server has not
    async with Counterparty().serving() as counterparty:
        made = Machine(postgres, tmp_path, counterparty)
        await executed(made.dsn, TABLE)
        yield made
    for name in ("shop", "temporal", "temporal_visibility"):
        await executed(postgres.dsn(), f"drop database if exists {name} with (force)")
    await executed(postgres.dsn(), "drop role if exists temporal")


class Machine:
    """One machine with a PostgreSQL, and the other side of its effects."""

    def __init__(self, postgres: PostgresServer, folder: Path, counterparty: Counterparty) -> None:
        self.postgres, self.folder, self.counterparty = postgres, folder, counterparty
        self.state = folder / "state"
        self.port = free_port()
        self.more: dict[str, str] = {}
        self.dsn = postgres.dsn("shop").replace("postgres@", "shop@", 1)

    def environment(self) -> dict[str, str]:
        """Of every command."""
        return {
            **clean_environment(),
            "PYTHONPATH": str(ROOT),
            "PERDURE_DATABASE_URL": self.dsn,
            "PERDURE_ADMIN_DATABASE_URL": self.postgres.dsn(),
            "PERDURE_GRACEFUL_SHUTDOWN_TIMEOUT": "2",
            "COUNTERPARTY_PORT": str(self.counterparty.port),
            **self.more,
        }

    @asynccontextmanager
    async def up(self, *options: str) -> AsyncIterator[Developing]:
        """`perdure up`."""
        options = (*options, "--state", str(self.state), "--port", str(self.port))
        async with developing(
            self.folder, BOOKINGS, *options, environment=self.environment(), command=PERDURE_UP
        ) as running:
            try:
                yield running
            except BaseException as error:
                error.add_note(running.text)
                raise

    async def status(self) -> tuple[int, dict[str, Any]]:
        """Exit status and answer of `perdure up status --json`."""
        command = (*PERDURE_UP, "status", "--json", "--state", str(self.state))
        status, output = await self.run(*command)
        return status, json.loads(output.splitlines()[0])

    async def run(self, *command: str, more: Mapping[str, str] = {}) -> tuple[int, str]:
        """Run a command, with more in its environment: exit status and output."""
        process = await asyncio.create_subprocess_exec(
            *command,
            cwd=self.folder,
            env={**self.environment(), **more},
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        output = (await in_time(process.communicate()))[0].decode()
        assert process.returncode is not None
        return process.returncode, output

    def processes(self) -> list[dict[str, Any]]:
        """What `perdure up` has last written of each of its processes."""
        return list((Folder(self.state).status() or {"processes": []})["processes"])

    async def pid(self, name: str) -> int:
        """The process id of one of its processes, once that runs."""

        def found() -> int | None:
            return next((each["pid"] for each in self.processes() if each["name"] == name), None)

        return int(await until(found, f"{name} runs"))

    async def start(self, name: str) -> None:
        """Start some bookings in a transaction."""
        for kind in KINDS:
            ids = ", ".join(f"('{name}-{number}')" for number in range(EACH // len(KINDS)))
            await executed(self.dsn, f"select count(perdure.start('{kind}', x, '{{}}')) from (values {ids}) y (x)")

    async def count(self, sql: str) -> int:
        """A number out of the app's database."""
        return int(await executed(self.dsn, sql))


async def executed(dsn: str, sql: str) -> Any:
    """The first value that a statement returns."""
    connection = await asyncpg.connect(dsn)
    try:
        return await connection.fetchval(sql)
    finally:
        await connection.close()


async def test_whatever_is_killed_under_load_nothing_is_lost_and_nothing_happens_twice(machine: Machine) -> None:
    machine.postgres.stop()
    async with machine.up("--workers", "2") as running:
        await running.writes("waits for PostgreSQL")
        status, answer = await machine.status()
        assert (status, answer["ready"], answer["processes"]) == (1, False, [])
        machine.postgres.start()
        await running.writes(READY)
        status, answer = await machine.status()
        assert status == 0
        assert [each["name"] for each in answer["processes"] if each["name"] != "web-ui"] == [
            *("temporal", "worker-1", "worker-2")
        ]
        await the_role_is_limited(machine)
        for victim in ("temporal", "worker-1", "worker-2"):
            before = machine.counterparty.accepted.total()
            await machine.start(victim)
            await machine.counterparty.has_accepted(1 + before)
            os.kill(await machine.pid(victim), signal.SIGKILL)
            await running.writes(f"a process ended; it is replaced | process={victim} status=-9")
        await machine.start("postgres")
        await asyncio.to_thread(machine.postgres.kill)
        await asyncio.to_thread(machine.postgres.start)
        await until_count(lambda: machine.count(AT_ITS_END), 4 * EACH, "ends")
        # A worker that is replaced may still be starting: the other one has done all of it.
        await until(lambda: {each["state"] for each in machine.processes()} == {"running"}, "all processes run")
        family = psutil.Process(running.process.pid).children(recursive=True)
        assert await running.stop() == 0
    assert set(machine.counterparty.accepted.values()) == {1}
    assert machine.counterparty.accepted.total() == 4 * EACH
    assert not [each for each in family if each.is_running()]
    stopped = running.text[running.text.rindex("perdure.up: stopping") :]
    assert stopped.count("perdure.worker: stopped") == 2
    assert stopped.rstrip().endswith("perdure.up: stopped"), "the workers stopped before Temporal did"
    status, _ = await machine.run(*PERDURE_UP, "status", "--state", str(machine.state))
    assert status == 1


async def the_role_is_limited(machine: Machine) -> None:
    """It owns Temporal's databases, and nobody else may connect to them."""
    rights = "rolsuper or rolcreatedb or rolcreaterole or rolbypassrls or rolreplication"
    assert await machine.count(f"select count(*) from pg_roles where rolname = 'temporal' and not ({rights})") == 1
    owned = "select count(*) from pg_database where datdba = 'temporal'::regrole"
    assert await machine.count(owned) == 2
    assert not await executed(machine.dsn, "select has_database_privilege('shop', 'temporal', 'connect')")
    assert (machine.state / "temporal.password").stat().st_mode & 0o077 == 0


async def test_killed_itself_it_leaves_no_process_and_starts_again(machine: Machine) -> None:
    port = free_port()
    async with machine.up("--try", "--console", f"--port {port}") as running:
        await running.writes(READY)
        await until(lambda: not is_free(port), "the console listens")
        assert (await machine.pid("console")) in [each.pid for each in psutil.Process(running.process.pid).children()]
        await machine.start("before")
        family = psutil.Process(running.process.pid).children(recursive=True)
        running.process.kill()
        await until(lambda: not any(each.is_running() for each in family), "the end of its processes")
        await running.ended()
    async with machine.up("--try") as running:
        await running.writes(READY)
        await until_count(lambda: machine.count(AT_ITS_END), EACH, "ends")
        assert await running.stop() == 0
    assert set(machine.counterparty.accepted.values()) == {1}


async def test_it_does_not_use_the_temporal_of_another_installation_that_has_its_port(
    machine: Machine, tmp_path_factory: pytest.TempPathFactory
) -> None:
    await executed(machine.postgres.dsn(), "create database other owner shop")
    second = Machine(machine.postgres, tmp_path_factory.mktemp("second"), machine.counterparty)
    second.port, second.more = machine.port, {"PERDURE_SCOPE": "other"}
    second.dsn = machine.dsn.removesuffix("shop") + "other"
    try:
        async with machine.up("--try", "--workers", "0") as running:
            await running.writes(READY)
            async with second.up("--try") as other:
                assert await other.ended() == 1
        assert f"another program listens on port {machine.port}" in other.text
        assert READY not in other.text
        assert await executed(second.dsn, "select to_regnamespace('perdure') is null"), "nothing was begun"
    finally:
        await executed(machine.postgres.dsn(), "drop database other with (force)")


async def test_the_certificates_of_its_connections_to_postgresql_are_replaced_while_it_runs(
    machine: Machine, tmp_path: Path
) -> None:
    files, first, second = Files(tmp_path / "client"), Authority("first"), Authority("second")
    after = second.issue("up")
    files.write(first, first.issue("up"))
    context = server_context(first.issue("server"), first, tmp_path)
    async with behind_tls(f"127.0.0.1:{machine.postgres.port}", context, postgres=True) as proxy:
        machine.more = {
            "PERDURE_DATABASE_URL": files.url(machine.dsn, proxy.port),
            "PERDURE_TEMPORAL_DATABASE_URL": files.url(machine.postgres.dsn(), proxy.port),
        }
        async with machine.up() as running:
            await running.writes(READY)
            temporal = await machine.pid("temporal")
            files.write(second, after)  # what the server does not trust yet
            await running.writes("replaced files can't be used yet")
            assert await machine.pid("temporal") == temporal
            await proxy.change(server_context(second.issue("server"), second, tmp_path))
            proxy.serials.clear()
            await running.writes(
                "certificates were replaced: the process is restarted, to read them | process=temporal"
            )
            await machine.start("after")
            await until_count(lambda: machine.count(AT_ITS_END), EACH, "ends")
            assert await running.stop() == 0
        assert set(proxy.serials) == {after.serial}
    assert set(machine.counterparty.accepted.values()) == {1}


@pytest.mark.parametrize("tables", [1, 10])
async def test_a_start_whose_schema_tool_was_killed_is_followed_by_one_that_succeeds(
    machine: Machine, tmp_path: Path, tables: int
) -> None:
    programs = await asyncio.to_thread(obtain_programs)
    database = await make_databases(machine.dsn, machine.postgres.dsn(), None, Folder(tmp_path))
    await killed_at(machine, tables, schema_commands(programs, MAIN, anew=True), tool_environment(database, MAIN))
    await make_schemas(programs, database)
    for command in schema_commands(programs, MAIN, anew=False):
        status, output = await machine.run(*command, more=tool_environment(database, MAIN))
        assert (status, "found zero updates" in output) == (0, True)
    assert await executed(machine.postgres.dsn(MAIN), "select count(*) from namespace_metadata") == 1


async def killed_at(machine: Machine, tables: int, commands: Sequence[list[str]], environment: dict[str, str]) -> None:
    """Run the commands, and kill the one that makes another table when there are this many: PostgreSQL holds it up."""
    status: int | None = 0
    async with hold_tables(machine.postgres.dsn(MAIN), tables) as hold:
        for command in commands:
            if status != 0:
                break
            tool = await asyncio.create_subprocess_exec(*command, env=environment, stdout=DEVNULL, stderr=DEVNULL)
            ended = asyncio.create_task(tool.wait())

            async def stands(ended: asyncio.Task[int] = ended) -> bool:
                return ended.done() or await hold.is_reached()

            await until(stands, "its end, or the next table")
            if not ended.done():
                tool.kill()
            status = await in_time(ended)
        await hold.cut_off()
    assert status == -signal.SIGKILL


def followed(name: str) -> list[str]:
    """The commands of a block of the guide."""
    found = re.search(rf"<!-- followed: {name} -->\n```console\n(.*?)```", GUIDE.read_text(), re.DOTALL)
    assert found is not None
    return [line.removeprefix("$ ") for line in found[1].splitlines()]


async def test_a_restored_database_continues_on_an_empty_temporal_as_the_guide_describes(machine: Machine) -> None:
    async with machine.up() as running:
        await running.writes(READY)
        await machine.start("done")
        await until_count(lambda: machine.count(AT_ITS_END), EACH, "ends")
        machine.counterparty.before_replying.shut()
        await machine.start("open")
        await machine.counterparty.has_accepted(2 * EACH)
        assert await follow(machine, "backup") == 0
        assert await running.stop() == 0
    machine.counterparty.before_replying.open()
    for name in ("shop", "temporal", "temporal_visibility"):
        await executed(machine.postgres.dsn(), f"drop database {name} with (force)")
    await executed(machine.postgres.dsn(), "create database shop owner shop")

    assert await follow(machine, "restore") == 0
    async with machine.up() as running:
        await running.writes(READY)
        await until_count(lambda: machine.count(AT_ITS_END), 2 * EACH, "ends")
        assert await running.stop() == 0
    assert set(machine.counterparty.accepted.values()) == {1}


async def test_after_a_point_in_time_recovery_of_the_whole_postgresql_nothing_is_left_to_do(machine: Machine) -> None:
    with clusters_folder() as folder:
        await recovered_to_before_the_ends(machine, Path(folder))
    assert set(machine.counterparty.accepted.values()) == {1}


async def recovered_to_before_the_ends(machine: Machine, folder: Path) -> None:
    """Let bookings end, recover the server to a point before that, and let them end once more, with new ones."""
    async with machine.up() as running:
        await running.writes(READY)
        source = machine.postgres
        backup = await asyncio.to_thread(base_backup, source, folder, "recovered")
        machine.counterparty.before_replying.shut()
        await machine.start("open")
        await machine.counterparty.has_accepted(EACH)
        await executed(source.dsn(), "select pg_create_restore_point('open')")
        machine.counterparty.before_replying.open()
        await until_count(lambda: machine.count(AT_ITS_END), EACH, "ends")
        await executed(source.dsn(), "select pg_switch_wal()")
        assert await running.stop() == 0
    recover_to(backup, source, "open")
    with backup:
        machine.postgres = backup
        machine.dsn = machine.dsn.replace(f":{source.port}/", f":{backup.port}/")
        async with machine.up() as running:
            await running.writes(READY)
            await machine.start("new")
            await until_count(lambda: machine.count(AT_ITS_END), 2 * EACH, "ends")
            assert await running.stop() == 0


async def follow(machine: Machine, name: str) -> int:
    """Run a block of the guide in a shell, with this machine's app, folder and port; its exit status."""
    script = "\n".join(("set -em", *followed(name)))
    for written, here in (
        ("perdure up shop.app:app", f"perdure up {BOOKINGS} --state {machine.state} --port {machine.port}"),
        ("perdure up status", f"perdure up status --state {machine.state}"),
        ("/var/lib/perdure", str(machine.state)),
    ):
        assert written in script or name == "backup"
        script = script.replace(written, here)
    status, output = await machine.run("bash", "-c", script)
    print(output)
    return status
