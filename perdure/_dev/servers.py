"""The servers of `perdure dev`: those that the environment names, else its own, whose data stay in `.perdure`."""

from __future__ import annotations

import ipaddress
import os
import socket
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import parse_qs, unquote, urlsplit

import asyncpg

from perdure._dev.folder import Folder
from perdure._store.secured import unusable
from perdure.errors import InvalidSetting
from perdure.servers.healing import healed
from perdure.servers.postgres import PostgresServer
from perdure.servers.temporal import TemporalServer
from perdure.settings import without_passwords

_NAME = "app"
"""Of the database, and of the role that owns it: not a superuser, as in production."""
OF_SERVERS = ("postgres", "temporal", "web_ui")
"""What has a port."""
_DATABASES = ("PERDURE_DATABASE_URL", "PERDURE_COLUMN_DATABASE_URL", "PERDURE_ERASURE_DATABASE_URL")
_OF_CONTAINERS = (Path("/.dockerenv"), Path("/run/.containerenv"))
"""Files that Docker and Podman make."""
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
    check_local(os.environ)
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


def check_local(environment: Mapping[str, str]) -> None:
    """Refuse servers of another machine: `perdure dev` migrates the database, and recovers what is open in it.

    Args:
        environment: its variables that name servers.

    Raises:
        InvalidSetting: one is on another machine, or that is not known.
    """
    for name in (*_DATABASES, "TEMPORAL_ADDRESS"):
        if not (value := environment.get(name)):
            continue
        of_database = name in _DATABASES
        hosts = _hosts(value, environment.get("PGHOST", "")) if of_database else [_host(value)]
        if not all(map(_is_local, hosts)):
            shown = without_passwords(value) if of_database else value
            by = f" with PGHOST={environment['PGHOST']}" if of_database and environment.get("PGHOST") in hosts else ""
            raise InvalidSetting(
                f"{name}={shown}{by}: `perdure dev` uses servers on this machine only: unset {name}, and it starts one"
            )


def _hosts(url: str, default: str) -> list[str]:
    """The hosts by which asyncpg connects; '' for a socket of this machine.

    Raises:
        InvalidSetting: the URL can't be read.
    """
    try:
        parts = urlsplit(url)
        given = parse_qs(parts.query)
    except ValueError as error:
        raise unusable(url, error) from None
    if "service" in given:
        raise unusable(url, "a service may be on another machine: write its host")
    places = unquote(parts.netloc.rpartition("@")[2]), *given.get("host", [])
    hosts = [_host(each) for place in places for each in place.split(",")]
    return [each for each in hosts if each] or default.split(",")


def _host(place: str) -> str:
    """The host of `host:port`, `[address]:port` or one without a port."""
    if place.startswith("/"):
        return place
    if place.startswith("["):
        return place[1:].partition("]")[0]
    return place.rpartition(":")[0] if ":" in place else place


def _is_local(host: str) -> bool:
    """Whether it is a socket or an address of this machine; in a container, also another one, whose name has no dot."""
    if not host or host.startswith("/"):
        return True
    try:
        found = {str(each[4][0]) for each in socket.getaddrinfo(host, None)}
    except (OSError, ValueError):
        return False
    beside = "." not in host and ":" not in host and any(file.exists() for file in _OF_CONTAINERS)
    return beside or all(ipaddress.ip_address(each.partition("%")[0]).is_loopback for each in found)
