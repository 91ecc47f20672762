"""Servers for the whole run, and a world for each test."""

from __future__ import annotations

import asyncio
import os
import secrets
import signal
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack
from pathlib import Path

import asyncpg
import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from temporalio.runtime import Runtime

from infra.certificates import Certificate, self_signed
from infra.quiet import quiet_runtime
from perdure._store import schema
from perdure.servers.healing import healed
from perdure.servers.memory import memory
from perdure.servers.postgres import PostgresServer
from perdure.servers.temporal import TemporalServer
from perdure.telemetry import traces
from tests.app_tables import APP_TABLES
from tests.mail_secret import MAIL_SECRET
from tests.nested import TEMPORARY
from tests.patience import be_patient
from tests.world import World

# Without compiled files each process, and each run in the sandbox, compiles once more what it imports.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False
# Tests kill servers: the SDK's warnings about that would bury the failure that a report is about.
Runtime.set_default(quiet_runtime())
os.environ["PERDURE_MAIL_SECRET"] = MAIL_SECRET  # of the workers of all tests
# A shell lets what it starts in the background ignore SIGINT, and so the processes that tests start and interrupt.
signal.signal(signal.SIGINT, signal.default_int_handler)
be_patient()

PROMPT_TIMERS = {
    "history.timerProcessorMaxTimeShift": '"20ms"',
    "history.transferProcessorUpdateAckInterval": '"500ms"',
    "history.visibilityProcessorUpdateAckInterval": '"500ms"',
    "matching.numTaskqueueReadPartitions": "1",
    "matching.numTaskqueueWritePartitions": "1",
}
"""The server lets timers ring up to a second late, which a test with many short ones would spend waiting. It deletes a
run when it has noted down that the run is closed, which it does every 30 seconds, and that its lists know it, which it
does every ten. A task queue is in four parts, each with a cost of its own, and nearly every test has a new one."""

FEWER_MONTHS = """
    do $$ declare month regclass; begin
        for month in select inhrelid from pg_inherits join pg_class c on c.oid = inhrelid where relkind = 'r'
            and relnamespace = 'perdure'::regnamespace
            and right(relname, 7) > to_char(now() + interval '2 months', 'YYYY_MM')
        loop execute format('drop table %s', month); end loop;
    end $$;
"""


def pytest_configure() -> None:
    """Give this run a folder of its own: pytest closes the one that all runs share to other users when it starts, and
    with it the directories in which the PostgreSQL of another run works as a user of its own."""
    if TEMPORARY not in os.environ:
        os.environ[TEMPORARY] = _FOLDERS.enter_context(tempfile.TemporaryDirectory(prefix="perdure-tests-"))


@pytest.fixture(scope="session", autouse=True)
def _folder_of_nested_runs(tmp_path_factory: pytest.TempPathFactory) -> None:
    os.environ[TEMPORARY] = str(tmp_path_factory.mktemp("nested"))


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    """PostgreSQL with a migrated template database."""
    with PostgresServer(durable=False) as server:
        asyncio.run(_make_template(server))
        yield server


@pytest.fixture(scope="session")
def temporal() -> Iterator[TemporalServer]:
    """A Temporal dev server, with a file: what it has in memory only is gone when a query of it is interrupted."""
    with (
        tempfile.TemporaryDirectory(prefix="perdure-temporal-", dir=memory()) as folder,
        TemporalServer(db_file=Path(folder) / "temporal.db", dynamic_config=PROMPT_TIMERS) as server,
        healed(server),
    ):
        yield server


@pytest.fixture
async def database(postgres: PostgresServer) -> AsyncIterator[str]:
    """Name of a migrated database of the test's own."""
    name = "test_" + secrets.token_hex(6)
    await as_admin(postgres, f"create database {name} template perdure_template strategy file_copy")
    yield name
    await as_admin(postgres, f"drop database {name} with (force)")


@pytest.fixture
async def world(
    postgres: PostgresServer,
    temporal: TemporalServer,
    database: str,
    tmp_path: Path,
    request: pytest.FixtureRequest,
) -> AsyncIterator[World]:
    """A world in which the tests' bookings are run, or the app that the mark `world` names, with its settings."""
    from tests.apps.bodies import app

    marked = request.node.get_closest_marker("world") or pytest.mark.world(app).mark
    made = World(postgres, temporal, database, tmp_path)
    made.config = made.config.model_copy(update=marked.kwargs)
    async with made.made(*marked.args):
        yield made


@pytest.fixture(scope="session")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Certificate:
    """A certificate for 127.0.0.1, made once."""
    return self_signed(tmp_path_factory.mktemp("tls"))


@pytest.fixture
def spans(monkeypatch: pytest.MonkeyPatch) -> InMemorySpanExporter:
    """What the process exports: a process has one tracer provider for ever, so a test lends its own."""
    exporter, provider = InMemorySpanExporter(), TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr(trace, "_TRACER_PROVIDER", provider)
    monkeypatch.setattr(traces, "_tracer", provider.get_tracer("test"))
    return exporter


async def as_admin(server: PostgresServer, statement: str) -> None:
    """On a connection of its own each time, since tests restart the server."""
    admin = await asyncpg.connect(server.dsn())
    await admin.execute(statement)
    await admin.close()


async def _make_template(server: PostgresServer) -> None:
    admin = await asyncpg.connect(server.dsn())
    await admin.execute("create database perdure_template")
    connection = await asyncpg.connect(server.dsn("perdure_template"))
    await schema.migrate(connection)
    await connection.execute(APP_TABLES)
    await connection.execute(FEWER_MONTHS)  # a third less time for each test's copy
    make_months = await connection.fetchval("select pg_get_functiondef('perdure.make_months'::regproc)")
    await connection.execute(make_months.replace("DEFAULT 24", "DEFAULT 2"))  # nor does each worker make them again
    await connection.close()
    await admin.close()


_ENDED = pytest.StashKey[int]()
_FOLDERS = ExitStack()


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """Remember how it ended."""
    session.config.stash[_ENDED] = int(exitstatus)


@pytest.hookimpl(trylast=True)
def pytest_unconfigure(config: pytest.Config) -> None:
    """Leave at once: an interpreter that tears down the SDK's threads sometimes aborts (134) after all has passed."""
    if _ENDED in config.stash and not hasattr(config, "workerinput"):
        if config.stash[_ENDED] == 0:  # what a failed run has written can be read
            _FOLDERS.close()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(config.stash[_ENDED])
