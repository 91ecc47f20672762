"""The real Temporal server, all services in one process, on a PostgreSQL server of its own.

Unlike the dev server it keeps what it promised over a crash of its database, too. Same shape as
`perdure.servers.temporal.TemporalServer`; `postgres` can be stopped and killed apart from it.
"""

import asyncio
import json
import os
import signal
import tempfile
from collections.abc import Coroutine, Mapping
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPConnection, HTTPException
from pathlib import Path

import asyncpg

from infra.temporal_schema import Schema, obtain_schemas
from perdure.servers.guard import GuardedProcess
from perdure.servers.ports import free_port
from perdure.servers.postgres import PostgresServer
from perdure.servers.temporal import TemporalServer
from perdure.servers.temporal_on_postgres import (
    FRONTEND,
    HTTP,
    MAIN,
    PORTS,
    PROMPT_QUEUE,
    VISIBILITY,
    ServerDatabase,
    server_command,
    server_environment,
    write_dynamic_config,
)
from perdure.servers.temporal_programs import obtain_programs

_SETTINGS: dict[str, object] = {
    **PROMPT_QUEUE,
    # A namespace that was just made is known soon.
    "system.namespaceCacheRefreshInterval": "1s",
}
_CONNECTIONS = {
    **dict.fromkeys(("SQL_MAX_CONNS", "SQL_MAX_IDLE_CONNS"), "30"),
    **dict.fromkeys(("SQL_VIS_MAX_CONNS", "SQL_VIS_MAX_IDLE_CONNS"), "10"),
}
# As Temporal's own schema tool makes it (common/persistence/sql/sqlplugin/postgresql/admin.go): the server reads
# from it whether the schema is the one that it requires.
_VERSION_TABLE = """
    create table schema_version (
        version_partition int, db_name varchar(255), creation_time timestamp,
        curr_version varchar(64), min_compatible_version varchar(64), primary key (version_partition, db_name));
"""


class TemporalOnPostgres(TemporalServer):
    """One Temporal server for PostgreSQL on 127.0.0.1, with a PostgreSQL server for it alone.

    It keeps its ports and its workflows over `stop`, `kill` and `start`, and over those of its PostgreSQL, which
    `start` starts as well if need be. Both end with the process that started them.

    Attributes:
        postgres: what keeps its databases, `temporal` and `temporal_visibility`.
        database_port: where the server connects to them: its own, or that of a proxy.
    """

    def __init__(
        self,
        namespace: str = "default",
        log_file: Path | None = None,
        *,
        postgres: PostgresServer | None = None,
        dynamic_config: Mapping[str, object] | None = None,
    ) -> None:
        """Choose what; nothing runs yet.

        Args:
            namespace: is made at the first start.
            log_file: what the server writes, appended; None = a temporary one.
            postgres: where its databases are to be; None = a temporary server. It is ours from then on.
            dynamic_config: more of the server's settings, by name.
        """
        # Ours whatever is configured for the tests: the point of it is to be killed.
        self._folder = Path(tempfile.mkdtemp(prefix="perdure-temporal-server-"))
        super().__init__(namespace=namespace, log_file=log_file or self._folder / "temporal.log")
        self.ours, self.address = True, f"127.0.0.1:{self.port}"
        self.postgres = postgres or PostgresServer(durable=False)
        self.database_port = self.postgres.port
        self._temporary = self._folder
        self._settings = _SETTINGS | dict(dynamic_config or {})
        self._ports = {name: free_port() for name in PORTS} | {FRONTEND: self.port, HTTP: self._http_port}

    def start(self, *, timeout: float = 180.0) -> None:
        """Start the server, and its PostgreSQL first if need be, and wait until it serves its namespace.

        Args:
            timeout: seconds for each of the two, not counting the time to build the program.

        Raises:
            TemporalError: if it ended or didn't serve in time.
            TemporalMissingError: if there is no program to start.
        """
        programs = obtain_programs()
        self.postgres.start(timeout=timeout)
        if self.running:
            return
        _run(_prepare(self.postgres, obtain_schemas()))
        self._process = GuardedProcess(
            server_command(programs),
            ask=signal.SIGTERM,
            log=self.log_file,
            remove=self._folder,
            cwd=self._folder,
            env=os.environ | self._environment(),
        )
        self._wait_until_serving(self._process, timeout)

    def forget(self) -> None:
        """Lose everything: stop the server and drop its databases. The next start makes empty ones."""
        self.stop()
        _run(_drop(self.postgres))

    def close(self) -> None:
        """Stop the server and its PostgreSQL, and remove what was temporary."""
        super().close()
        self.postgres.close()

    def _environment(self) -> dict[str, str]:
        """Its variables; the ports stay those of the first time."""
        dynamic = self._folder / "dynamic.yaml"
        write_dynamic_config(dynamic, self._settings)
        database = ServerDatabase("127.0.0.1", self.database_port, "postgres")
        return server_environment(database, self._ports, dynamic) | _CONNECTIONS | {"LOG_LEVEL": "warn"}

    def _namespace_described(self) -> bool:
        described = super()._namespace_described() or (self._registered() and super()._namespace_described())
        return described and self._known_to_all_services()

    def _registered(self) -> bool:
        """Make the namespace, by the server's own HTTP view of the gRPC call RegisterNamespace."""
        body = {"namespace": self.namespace, "workflowExecutionRetentionPeriod": "86400s"}
        status, _ = self._asked("POST", "/api/v1/namespaces", json.dumps(body))
        return status in (200, 409)  # 409: it is there already

    def _known_to_all_services(self) -> bool:
        """History and matching keep lists of the namespaces, which are up to two seconds behind."""
        status, body = self._asked("GET", f"/api/v1/namespaces/{self.namespace}/workflows/nobody")
        if status != 404 or "amespace" in body:
            return False
        status, _ = self._asked("GET", f"/api/v1/namespaces/{self.namespace}/task-queues/nobody")
        return status == 200

    def _asked(self, method: str, path: str, body: str | None = None) -> tuple[int, str]:
        connection = HTTPConnection("127.0.0.1", self._http_port, timeout=5)
        try:
            connection.request(method, path, body, {"Content-Type": "application/json"})
            reply = connection.getresponse()
            return reply.status, reply.read().decode()
        except (OSError, HTTPException):
            return 0, ""
        finally:
            connection.close()


def _run(work: Coroutine[None, None, None]) -> None:
    with ThreadPoolExecutor(1) as thread:  # our caller may well be inside an event loop
        thread.submit(asyncio.run, work).result()


async def _prepare(postgres: PostgresServer, schemas: Mapping[str, Schema]) -> None:
    """Make the databases that are not there yet: whole ones, or none."""
    admin = await asyncpg.connect(postgres.dsn())
    try:
        for database, schema in schemas.items():
            if await admin.fetchval("select exists (select from pg_database where datname = $1)", database):
                continue
            await admin.execute(f"drop database if exists {database}_new with (force)")
            await admin.execute(f"create database {database}_new")
            await _fill(postgres.dsn(f"{database}_new"), schema.sql, database, schema.version)
            await admin.execute(f"alter database {database}_new rename to {database}")
    finally:
        await admin.close()


async def _fill(dsn: str, schema: str, database: str, version: str) -> None:
    connection = await asyncpg.connect(dsn)
    try:
        await connection.execute(_without_extension(schema) + _VERSION_TABLE)
        await connection.execute(
            "insert into schema_version values (0, $1, now() at time zone 'UTC', $2, $2)", database, version
        )
    finally:
        await connection.close()


def _without_extension(schema: str) -> str:
    """The schema without `btree_gin`, which not every PostgreSQL has at hand: indexes that lead with the namespace
    leave that out. Only for speed on big tables: the same queries give the same rows."""
    before, block, after = schema.partition("DO LANGUAGE 'plpgsql' $$")
    if block:
        schema = before + after.partition("$$;")[2]
    return schema.replace("USING GIN (namespace_id, ", "USING GIN (")


async def _drop(postgres: PostgresServer) -> None:
    admin = await asyncpg.connect(postgres.dsn())
    try:
        for database in (MAIN, VISIBILITY):
            await admin.execute(f"drop database if exists {database} with (force)")
    finally:
        await admin.close()
