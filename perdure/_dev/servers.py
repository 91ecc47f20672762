"""The servers of `perdure dev`: those that the environment names, else its own, whose data stay in `.perdure`."""

from __future__ import annotations

import ipaddress
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from urllib.parse import parse_qs, urlsplit

import asyncpg

from perdure._dev.folder import Folder
from perdure.errors import InvalidSetting
from perdure.servers.healing import healed
from perdure.servers.postgres import PostgresServer
from perdure.servers.temporal import TemporalServer
from perdure.settings import without_passwords

_NAME = "app"
"""Of the database, and of the role that owns it: not a superuser, as in production."""
OF_SERVERS = ("postgres", "temporal", "web_ui")
"""What has a port."""
Report = Callable[[str], None]


@dataclass(frozen=True)
class Servers:
    """Where the servers are.

    Attributes:
        database_url: PostgreSQL.
        temporal: Temporal, as `host:port`.
        web_ui: Temporal's Web UI; None where the environment names Temporal.
        ours: the PostgreSQL that was started here; None where the environment names the database.
    """

    database_url: str
    temporal: str
    web_ui: str | None
    ours: PostgresServer | None


@contextmanager
def running(folder: Folder, ports: Mapping[str, int]) -> Iterator[Servers]:
    """Start what the environment does not name, and stop it at the end.

    Args:
        ports: one for each of `OF_SERVERS`.

    Raises:
        InvalidSetting: the environment names a server on another machine.
        RuntimeError, OSError: a server could not be started; the message has the reason.
    """
    database_url, temporal = os.environ.get("PERDURE_DATABASE_URL"), os.environ.get("TEMPORAL_ADDRESS")
    check_local(database_url, temporal)
    with ExitStack() as stack:
        ours = None
        if database_url is None:
            ours = stack.enter_context(PostgresServer(folder.postgres(), ports["postgres"]))
            database_url = ours.dsn(_NAME).replace("postgres@", f"{_NAME}@", 1)
        web_ui = None
        if temporal is None:
            server = TemporalServer(
                ports["temporal"],
                ports["web_ui"],
                db_file=folder.path / "temporal.db",
                log_file=folder.path / "temporal.log",
            )
            stack.enter_context(server)
            stack.enter_context(healed(server))
            temporal, web_ui = server.address, server.ui_url
        yield Servers(database_url, temporal, web_ui, ours)


async def make_database(servers: Servers) -> None:
    """Make the database and its owner in a PostgreSQL of our own, where they are missing."""
    if servers.ours is None:
        return
    connection = await asyncpg.connect(servers.ours.dsn())
    try:
        if not await connection.fetchval("select true from pg_roles where rolname = $1", _NAME):
            await connection.execute(f"create role {_NAME} login")
        if not await connection.fetchval("select true from pg_database where datname = $1", _NAME):
            await connection.execute(f"create database {_NAME} owner {_NAME}")
    finally:
        await connection.close()


def check_local(database_url: str | None, temporal: str | None) -> None:
    """Refuse servers of another machine: `perdure dev` migrates the database, and recovers what is open in it.

    Raises:
        InvalidSetting: one is named.
    """
    for name, shown, host in (
        ("PERDURE_DATABASE_URL", without_passwords(database_url or ""), _host(database_url)),
        ("TEMPORAL_ADDRESS", temporal, (temporal or "").rpartition(":")[0]),
    ):
        if host and not _is_local(host):
            raise InvalidSetting(
                f"{name}={shown}: `perdure dev` uses servers on this machine only: unset {name}, and it starts one"
            )


def _host(url: str | None) -> str:
    """The host of a URL; '' for a socket of this machine."""
    if url is None:
        return ""
    parts = urlsplit(url)
    return parts.hostname or next(iter(parse_qs(parts.query).get("host", [""])), "")


def _is_local(host: str) -> bool:
    """Whether it is this machine, or a container beside this one, whose name has no dot."""
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host.startswith("/") or "." not in host
