"""The servers that everything else is tested on keep their promises.

They come back after a stop and a crash, end with whoever started them, and are fetched by one process only.
"""

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path

import asyncpg
import psutil
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from temporalio import workflow
from temporalio.client import Client, WorkflowExecutionStatus, WorkflowHandle
from temporalio.service import RPCError
from temporalio.worker import Worker

from infra.restartable import Restartable
from infra.time_skipping import time_skipping_environment
from perdure.servers import healing
from perdure.servers.guard import GuardedProcess
from perdure.servers.ports import is_free
from perdure.servers.postgres import PostgresError, PostgresServer
from perdure.servers.temporal import TemporalServer
from tests.deadline import DEADLINE, until

REPOSITORY = Path(__file__).parents[2]
# A proxy that refuses: the SDK's download fails at once, also where there is a way out.
NO_WAY_OUT = {"HTTPS_PROXY": "http://127.0.0.1:9", "https_proxy": "http://127.0.0.1:9"}
NO_WAY_OUT |= {"NO_PROXY": "", "no_proxy": ""}

own_temporal = pytest.mark.skipif(
    "PERDURE_TEST_TEMPORAL_ADDRESS" in os.environ, reason="a configured server is not ours to start and stop"
)


@workflow.defn(sandboxed=False)
class Waiting:
    @workflow.run
    async def run(self, days: int) -> int:
        since = workflow.now()
        await workflow.sleep(timedelta(days=days))
        return (workflow.now() - since).days


# --- PostgreSQL


@pytest.mark.parametrize(
    "interrupt",
    [
        pytest.param(lambda server: server.restart(), id="restarted"),
        pytest.param(lambda server: server.restart("immediate"), id="restarted-without-checkpoint"),
        pytest.param(lambda server: (server.kill(), server.start()), id="killed"),
    ],
)
async def test_a_commit_of_postgresql_survives_an_interruption(
    interrupt: Callable[[PostgresServer], object],
) -> None:
    with PostgresServer() as server:
        await execute(server, "CREATE TABLE kept (word text)")
        await execute(server, "INSERT INTO kept VALUES ('committed')")
        before = server.pid, server.dsn()

        interrupt(server)

        assert await execute(server, "SELECT word FROM kept") == "committed"
        assert server.pid != before[0]
        assert server.dsn() == before[1]


async def test_a_killed_postgres_is_gone_with_all_its_connections() -> None:
    with PostgresServer(durable=False) as server:
        connection = await asyncpg.connect(server.dsn())
        family = [psutil.Process(server.pid), *psutil.Process(server.pid).children(recursive=True)]

        server.kill()

        assert len(family) > 1
        assert not [process for process in family if lives(process)]
        with pytest.raises((asyncpg.PostgresConnectionError, asyncpg.InterfaceError, OSError)):
            await connection.execute("SELECT 1")
        connection.terminate()


async def test_a_killed_postgres_starts_again_though_its_process_id_is_anothers_by_now() -> None:
    with PostgresServer(durable=False) as other, PostgresServer(durable=False) as server:
        lock = server.data_directory / "postmaster.pid"
        server.kill()
        lock.write_text(lock.read_text().replace(lock.read_text().splitlines()[0], str(other.pid), 1))

        server.start()

        assert await execute(server, "select 1") == 1


async def test_a_data_directory_in_use_starts_no_second_server() -> None:
    with PostgresServer(durable=False) as server:
        second = PostgresServer(server.data_directory)

        with pytest.raises(PostgresError, match=f"another postmaster .PID {server.pid}. running"):
            second.start()

        assert await execute(server, "select 1") == 1


def test_a_given_data_directory_stays_and_a_temporary_one_goes(tmp_path: Path) -> None:
    with PostgresServer(tmp_path / "data") as kept, PostgresServer() as temporary:
        pass
    assert (kept.data_directory / "PG_VERSION").exists()
    assert not temporary.data_directory.parent.exists()


async def test_nothing_is_left_of_a_server_that_ended_by_itself() -> None:
    ourselves = psutil.Process()
    before = set(ourselves.children())
    with PostgresServer(durable=False) as server:
        os.kill(server.pid, signal.SIGINT)
        wait_until(lambda: not server.running, "PostgreSQL to end")

        server.start()

        assert len(set(ourselves.children()) - before) == 2, "the server and its guard"
    process = Restartable()
    process._process = guarded = GuardedProcess(["true"], ask=signal.SIGTERM, log=None)
    await until(lambda: not guarded.running, "it ends")

    await process.end()

    assert set(ourselves.children()) <= before


def test_postgres_ends_when_its_starter_is_killed() -> None:
    program = """
        from perdure.servers.postgres import PostgresServer
        server = PostgresServer(); server.start()
        print(server.pid, server.data_directory.parent, flush=True); input()
    """
    with starter(program) as (process, said):
        server, directory = psutil.Process(int(said[0])), Path(said[1])
        assert lives(server)

        process.kill()

        wait_until(lambda: not lives(server), "PostgreSQL to end")
        wait_until(lambda: not directory.exists(), "its temporary directory to go")


# --- Temporal


@own_temporal
@pytest.mark.parametrize(
    "interrupt",
    [
        pytest.param(lambda server: server.restart(), id="restarted"),
        pytest.param(lambda server: (server.kill(), server.start()), id="killed"),
    ],
)
async def test_a_workflow_is_still_running_after_its_server_was(
    interrupt: Callable[[TemporalServer], object], tmp_path: Path
) -> None:
    with TemporalServer(db_file=tmp_path / "temporal.db", namespace="kept") as server:
        client = await Client.connect(server.address, namespace="kept")
        started = await client.start_workflow(Waiting.run, 1, id="waiting", task_queue="nobody")

        interrupt(server)

        assert await status(await Client.connect(server.address, namespace="kept"), started) == (
            WorkflowExecutionStatus.RUNNING
        )


class Stuck(TemporalServer):
    """Until it is started again, its SQLite is."""

    def interrupted(self) -> bool:
        """See base class."""
        self.first: int = getattr(self, "first", self.pid)
        return self.pid == self.first


@own_temporal
async def test_a_server_that_is_stuck_is_started_again_and_has_its_workflows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(healing, "LOOK", 0.05)
    with Stuck(db_file=tmp_path / "temporal.db") as server:
        client, stuck = await Client.connect(server.address), server.pid
        started = await client.start_workflow(Waiting.run, 1, id="waiting", task_queue="nobody")
        with healing.healed(server):
            await until(lambda: server.pid != stuck, "it is started again")
        assert await status(await Client.connect(server.address), started) == WorkflowExecutionStatus.RUNNING


@pytest.mark.parametrize(
    ("answer", "stuck"),
    [
        (b'{"code":14,"message":"GetNamespace operation failed. Error interrupted (9)"}', True),
        (b'{"code":14,"message":"Not enough hosts to serve the request"}', False),
    ],
)
async def test_what_a_server_answers_shows_whether_it_is_stuck(answer: bytes, stuck: bool) -> None:
    server = TemporalServer()
    assert not server.interrupted()

    async def unavailable(request: web.Request) -> web.Response:
        return web.Response(status=503, body=answer)

    async with TestServer(_answering(unavailable), host="127.0.0.1", port=server._http_port):
        assert await asyncio.to_thread(server.interrupted) is stuck
    server.close()


def _answering(with_this: Callable[[web.Request], Awaitable[web.Response]]) -> web.Application:
    application = web.Application()
    application.router.add_get("/{all:.*}", with_this)
    return application


@own_temporal
async def test_a_paused_server_answers_nobody_until_it_is_resumed() -> None:
    with TemporalServer() as server:
        client = await Client.connect(server.address)
        started = await client.start_workflow(Waiting.run, 1, id="waiting", task_queue="nobody")

        server.pause()
        with pytest.raises(RPCError):
            await started.describe(rpc_timeout=timedelta(seconds=1))
        server.resume()

        assert await status(client, started) == WorkflowExecutionStatus.RUNNING


@own_temporal
def test_temporal_ends_when_its_starter_is_killed() -> None:
    program = """
        from perdure.servers.temporal import TemporalServer
from tests.deadline import DEADLINE
        server = TemporalServer(); server.start()
        print(server.pid, server.port, server.log_file.parent, flush=True); input()
    """
    with starter(program) as (process, said):
        server, port, directory = psutil.Process(int(said[0])), int(said[1]), Path(said[2])
        assert not is_free(port)

        process.kill()

        wait_until(lambda: not lives(server), "the Temporal server to end")
        wait_until(lambda: not directory.exists(), "its temporary directory to go")
        assert is_free(port)


# --- getting the Temporal program


def test_of_two_processes_that_need_temporal_at_once_one_builds_it(tmp_path: Path) -> None:
    release, calls = tmp_path / "release", tmp_path / "calls"
    go = f"""
        echo "$@" >> {calls}
        while [ ! -e {release} ]; do /bin/sleep 0.05; done
        echo built > "$GOBIN/temporal"
    """
    environment = machine_with_go(tmp_path, go)
    with finder(environment, tmp_path / "one") as one, finder(environment, tmp_path / "two") as two:
        said = [tmp_path / "one", tmp_path / "two"]
        wait_until(lambda: any("building the Temporal" in path.read_text() for path in said), "a build")
        wait_until(lambda: any("waiting for another" in path.read_text() for path in said), "the other one")
        release.touch()

        found = [process.communicate(timeout=DEADLINE)[0].strip() for process in (one, two)]

    assert found == [str(tmp_path / "cache" / "perdure" / "bin" / "temporal")] * 2
    assert calls.read_text().splitlines() == ["install github.com/temporalio/cli/cmd/temporal@v1.5.1"]
    assert Path(found[0]).read_text() == "built\n"


def test_without_any_way_to_temporal_the_error_names_each_and_nothing_is_left_behind(tmp_path: Path) -> None:
    environment = machine_with_go(tmp_path, "echo 'no route to the modules' >&2; exit 1")
    with finder(environment, tmp_path / "said") as process:
        assert process.wait(timeout=DEADLINE) == 1

    said = (tmp_path / "said").read_text()
    for part in ("PATH:", "our cache:", "the SDK's download:", "no route to the modules",
                 "PERDURE_TEST_TEMPORAL_ADDRESS"):  # fmt: skip
        assert part in said
    left = [path.name for path in (tmp_path / "cache" / "perdure" / "bin").iterdir()]
    assert left == [".temporal.lock"]


# --- time skipping


async def test_thirty_days_pass_while_the_test_waits() -> None:
    async with (
        time_skipping_environment() as environment,
        Worker(environment.client, task_queue="skipping", workflows=[Waiting]),
    ):
        slept = await environment.client.execute_workflow(Waiting.run, 30, id="waiting", task_queue="skipping")
    assert slept == 30


# --- what the tests above are told with


async def execute(server: PostgresServer, sql: str) -> object:
    connection = await asyncpg.connect(server.dsn())
    try:
        return await connection.fetchval(sql)
    finally:
        await connection.close()


async def status(client: Client, started: WorkflowHandle[Waiting, int]) -> WorkflowExecutionStatus | None:
    return (await client.get_workflow_handle(started.id).describe()).status


def lives(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def wait_until(condition: Callable[[], bool], what: str) -> None:
    end = time.monotonic() + DEADLINE
    while not condition():
        assert time.monotonic() < end, f"never came: {what}"
        time.sleep(0.02)


@contextmanager
def starter(program: str) -> Iterator[tuple[subprocess.Popen[str], list[str]]]:
    """Run a process that starts a server and says one line about it."""
    lines = "\n".join(line.strip() for line in program.splitlines())
    with subprocess.Popen(
        [sys.executable, "-c", lines],
        cwd=REPOSITORY,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        try:
            yield process, process.stdout.readline().split()
        finally:
            process.kill()


def machine_with_go(directory: Path, script: str) -> dict[str, str]:
    """Return an environment with an empty cache, no download, and nothing on PATH but this `go`."""
    programs = directory / "programs"
    programs.mkdir()
    (programs / "go").write_text(f"#!/bin/sh\n{script}\n")
    (programs / "go").chmod(0o755)
    return os.environ | NO_WAY_OUT | {"PATH": str(programs), "XDG_CACHE_HOME": str(directory / "cache")}


@contextmanager
def finder(environment: dict[str, str], said: Path) -> Iterator[subprocess.Popen[str]]:
    program = "from perdure.servers.temporal import obtain_temporal; print(obtain_temporal())"
    with said.open("w") as errors, subprocess.Popen(
        [sys.executable, "-c", program],
        cwd=REPOSITORY, env=environment, stdout=subprocess.PIPE, stderr=errors, text=True,
    ) as process:  # fmt: skip
        try:
            yield process
        finally:
            process.kill()
