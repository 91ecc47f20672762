"""How `temporal-server` is started on PostgreSQL: its configuration is in the program, and filled from the environment.

It listens on 127.0.0.1 alone, without authentication.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from perdure.servers.temporal_programs import Programs

MAIN, VISIBILITY = "temporal", "temporal_visibility"
SCHEMAS = {MAIN: "postgresql/v12/temporal", VISIBILITY: "postgresql/v12/visibility"}
"""Its two databases, and the name of the schema of each inside of `temporal-sql-tool`."""
FRONTEND, HTTP = "FRONTEND_GRPC_PORT", "FRONTEND_HTTP_PORT"
PORTS = {
    FRONTEND: 7233,
    HTTP: 7243,
    "HISTORY_GRPC_PORT": 7234,
    "MATCHING_GRPC_PORT": 7235,
    "WORKER_GRPC_PORT": 7239,
    "FRONTEND_MEMBERSHIP_PORT": 6933,
    "HISTORY_MEMBERSHIP_PORT": 6934,
    "MATCHING_MEMBERSHIP_PORT": 6935,
    "WORKER_MEMBERSHIP_PORT": 6939,
}
"""Variables of its ports, and Temporal's own defaults. A restart is faster where they stay the same."""
PROMPT_QUEUE = {"history.transferProcessorMaxPollRPS": 1000}
"""Without it each task that goes through the transfer queue waits about 250 ms above 3 runs a second."""
_PLUGIN = "postgres12_pgx"


@dataclass(frozen=True)
class ServerDatabase:
    """Where PostgreSQL is, and the role that owns the two databases.

    Attributes:
        host: a name or an address; Temporal connects by TCP alone.
        port: of PostgreSQL.
        user: the role.
        password: of the role; '' = none.
        tls: `SQL_TLS_...` and other variables of the server that its connections need.
    """

    host: str
    port: int
    user: str
    password: str = field(default="", repr=False)
    tls: Mapping[str, str] = field(default_factory=dict)

    @property
    def tls_files(self) -> list[Path]:
        """The files that `tls` names."""
        return [Path(self.tls[name]) for name in ("SQL_CA", "SQL_CERT", "SQL_CERT_KEY") if name in self.tls]


def server_command(programs: Programs) -> list[str]:
    """The command line of the server."""
    return [str(programs.server), "--allow-no-auth", "start"]


def server_environment(database: ServerDatabase, ports: Mapping[str, int], dynamic_config: Path) -> dict[str, str]:
    """The variables of the server, without those that an operator may choose.

    Args:
        database: where its data are.
        ports: a port for each of `PORTS`.
        dynamic_config: a file, as `write_dynamic_config` makes it. The server does not start without one.
    """
    return {
        "DB": _PLUGIN,
        "DBNAME": MAIN,
        "VISIBILITY_DBNAME": VISIBILITY,
        "POSTGRES_SEEDS": database.host,
        "DB_PORT": str(database.port),
        "POSTGRES_USER": database.user,
        "POSTGRES_PWD": database.password,
        "BIND_ON_IP": "127.0.0.1",
        "DYNAMIC_CONFIG_FILE_PATH": str(dynamic_config),
        **{name: str(port) for name, port in ports.items()},
        **database.tls,
    }


def write_dynamic_config(file: Path, settings: Mapping[str, object]) -> None:
    """Write settings of the server, by name."""
    file.write_text(json.dumps({name: [{"value": value}] for name, value in settings.items()}))  # JSON is YAML


def tool_environment(database: ServerDatabase, name: str) -> dict[str, str]:
    """The variables of `temporal-sql-tool` for one database. As an argument, all could see the password."""
    names = {
        "SQL_CA": "SQL_TLS_CA_FILE",
        "SQL_CERT": "SQL_TLS_CERT_FILE",
        "SQL_CERT_KEY": "SQL_TLS_KEY_FILE",
    }
    tls = {names[each]: value for each, value in database.tls.items() if each in names}
    if database.tls.get("SQL_TLS_ENABLED") == "true":
        unchecked = database.tls.get("SQL_HOST_VERIFICATION") != "true"
        tls |= {"SQL_TLS": "true", "SQL_TLS_DISABLE_HOST_VERIFICATION": str(unchecked).lower()}
    return {
        "SQL_PLUGIN": _PLUGIN,
        "SQL_HOST": database.host,
        "SQL_PORT": str(database.port),
        "SQL_USER": database.user,
        "SQL_PASSWORD": database.password,
        "SQL_DATABASE": name,
        **tls,
    }


def schema_commands(programs: Programs, name: str, *, anew: bool) -> Sequence[list[str]]:
    """Command lines that bring the schema of one of the two databases to that of the programs.

    Args:
        programs: the programs.
        name: `MAIN` or `VISIBILITY`.
        anew: the database is empty.
    """
    tool = str(programs.sql_tool)
    update = [tool, "update-schema", "--schema-name", SCHEMAS[name]]
    return [[tool, "setup-schema", "-v", "0.0"], update] if anew else [update]
