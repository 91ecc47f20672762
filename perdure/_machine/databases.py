"""Temporal's two databases in the given PostgreSQL, with a role that owns them and may do nothing else."""

from __future__ import annotations

import asyncio
import json
import logging
import re
import subprocess
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import asyncpg

from perdure._machine.addresses import server_database
from perdure._machine.folder import Folder
from perdure._machine.scram import verifier
from perdure._machine.temporal import ending_with_parent
from perdure._store.secured import connect
from perdure._store.sql import queries
from perdure.errors import InvalidSetting, NotPermitted, NotThisDatabase
from perdure.logs import log_event
from perdure.servers.temporal_on_postgres import MAIN, VISIBILITY, ServerDatabase, schema_commands, tool_environment
from perdure.servers.temporal_programs import Programs
from perdure.settings import without_passwords

log = logging.getLogger("perdure.up")
query = queries(__name__)

ROLE = "temporal"
CONNECTIONS = 60
"""That the role may hold: a server with the pools of `perdure up` holds about 25."""
ADMIN_URL, TEMPORAL_URL = "PERDURE_ADMIN_DATABASE_URL", "PERDURE_TEMPORAL_DATABASE_URL"
_OURS = "perdure up"
_AWAY = (
    OSError,
    TimeoutError,
    asyncpg.CannotConnectNowError,
    asyncpg.TooManyConnectionsError,
    asyncpg.ConnectionDoesNotExistError,
)
_LONGEST_PAUSE = 5.0
_FILES = {"SQL_CA": "sslrootcert", "SQL_CERT": "sslcert", "SQL_CERT_KEY": "sslkey"}


async def until_there(attempt: Callable[[], Coroutine[Any, Any, None]], report: Callable[[str], None]) -> None:
    """Await `attempt` until PostgreSQL is there for it.

    Args:
        attempt: what needs PostgreSQL.
        report: is given why it waits, once for each reason.
    """
    pause, reported = 0.2, ""
    while True:
        try:
            return await attempt()
        except _AWAY as error:
            if isinstance(error, InvalidSetting):  # a file that can't be used
                raise
            why = " ".join(str(error).split()) or type(error).__name__
            if why != reported:
                report(f"waits for PostgreSQL: {why}")
            reported = why
        await asyncio.sleep(pause)
        pause = min(2 * pause, _LONGEST_PAUSE)


async def check_connection(database: ServerDatabase) -> None:
    """Connect as Temporal's server does.

    Raises:
        OSError, asyncpg.PostgresError: PostgreSQL is away, or refuses it.
    """
    for name in (MAIN, VISIBILITY):
        await (await _opened(database, name)).close()


async def make_databases(app_url: str, admin_url: str | None, given_url: str | None, folder: Folder) -> ServerDatabase:
    """Make the role and the databases where they are missing.

    Args:
        app_url: the app's database, whose PostgreSQL is used unless another one is given.
        admin_url: a role that may create roles and databases; None = the role in `app_url`.
        given_url: a role that the operator made, and that owns the databases or may create them; None = `ROLE`.
        folder: holds the password of `ROLE`.

    Raises:
        NotPermitted: the role may not create them; the message has the SQL.
        NotThisDatabase: there is such a role or database that `perdure up` has not made.
        InvalidSetting: a URL can't be used.
    """
    if given_url is not None:
        database = server_database(TEMPORAL_URL, given_url)
        await _make_all(given_url, database.user, None)
        return database
    name, url = (ADMIN_URL, admin_url) if admin_url else ("PERDURE_DATABASE_URL", app_url)
    found = server_database(name, url)
    tls = {key: value for key, value in found.tls.items() if "CERT" not in key}  # that of the other role
    database = replace(found, user=ROLE, password=folder.password(), tls=tls)
    try:
        await check_connection(database)
    except (asyncpg.InvalidAuthorizationSpecificationError, asyncpg.InvalidCatalogNameError):
        await _make_all(url, ROLE, database.password)
    return database


async def make_schemas(programs: Programs, database: ServerDatabase) -> None:
    """Bring the schema of both databases to that of the programs; a newer one stays.

    Raises:
        NotPermitted: an extension is missing, or the tool failed; the message has its reason.
    """
    for name in (MAIN, VISIBILITY):
        connection = await _opened(database, name)
        try:
            await _make_schema(programs, database, name, connection)
        finally:
            await connection.close()


async def _make_schema(
    programs: Programs, database: ServerDatabase, name: str, connection: asyncpg.Connection[asyncpg.Record]
) -> None:
    found = await connection.fetchrow(query("temporal_schema"))
    assert found is not None
    if found["anew"] and not found["btree_gin"]:
        raise NotPermitted(
            f"PostgreSQL at {database.host}:{database.port} has no extension btree_gin, which Temporal's schema "
            "needs: install PostgreSQL's contrib package (Debian: postgresql-contrib, part of postgresql)"
        )
    environment = tool_environment(database, name)
    try:
        await asyncio.to_thread(_run, schema_commands(programs, name, anew=found["anew"]), environment)
    except NotPermitted:
        if found["used"]:
            raise
        # The tool cannot continue each schema that it has left unfinished, as when it was killed. No server has used
        # this one, so nothing is lost if it is made from its beginning.
        async with connection.transaction():
            for row in await connection.fetch(query("unfinished_schema")):
                await connection.execute(row["statement"])
        await asyncio.to_thread(_run, schema_commands(programs, name, anew=True), environment)


def _run(commands: Sequence[list[str]], environment: dict[str, str]) -> None:
    """Run the tool in a session of its own: Ctrl-C would end it in the middle of a schema."""
    for command in commands:
        done = subprocess.run(
            ending_with_parent(command),
            env=environment,
            start_new_session=True,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode != 0:
            why = _reason(done.stdout + done.stderr)
            raise NotPermitted(f"{Path(command[0]).name} {command[1]} of {environment['SQL_DATABASE']}: {why}")


def _reason(output: str) -> str:
    """The last error that the tool has logged, else its last line."""
    found = re.findall(r'"error": ("(?:[^"\\]|\\.)*")', output)
    return str(json.loads(found[-1])) if found else output.strip().rpartition("\n")[2]


async def _make_all(url: str, role: str, password: str | None) -> None:
    """Make what is missing, as the role in `url`. Without a password the role is the operator's, and stays as it is."""
    admin = await connect(url)
    try:
        found = await admin.fetchrow(query("temporal_databases"), role, MAIN, VISIBILITY)
        owners = {MAIN: found["main_owner"], VISIBILITY: found["visibility_owner"]}
        strangers = [f"database {name} of {owner}" for name, owner in owners.items() if owner not in (None, role)]
        if password is not None and found["role"] and found["comment"] != _OURS:
            strangers.insert(0, f"role {role}")
        if strangers:
            raise NotThisDatabase(
                f"PostgreSQL at {without_passwords(url)} has a {' and a '.join(strangers)} that `perdure up` has not "
                f"made: name a role that owns {MAIN} and {VISIBILITY} by {TEMPORAL_URL}"
            )
        missing = [name for name, owner in owners.items() if owner is None]
        for statement in _statements(role, password, missing, found["role"], found["superuser"]):
            await admin.execute(statement)
    except asyncpg.InsufficientPrivilegeError as error:
        raise NotPermitted(_way(url, role, error)) from error
    finally:
        await admin.close()
    log_event(log, "made Temporal's databases", role=role, databases=",".join(missing) or None)


def _statements(role: str, password: str | None, missing: list[str], there: bool, superuser: bool) -> list[str]:
    made = []
    if password is not None:
        made.append(
            f"{'alter' if there else 'create'} role {role} login nosuperuser nocreatedb nocreaterole "
            f"connection limit {CONNECTIONS} password '{verifier(password)}'"
        )
        made += [] if there else [f"comment on role {role} is '{_OURS}'"]
    joined = password is not None and not superuser and missing  # to give a database to a role, one must be in it
    made += [f"grant {role} to current_user"] if joined else []
    for name in missing:
        made.append(f"create database {name} owner \"{role}\" encoding 'UTF8' template template0")
    for name in missing if password is not None else []:
        made.append(f"revoke connect, temporary on database {name} from public")
    return [*made, f"revoke {role} from current_user"] if joined else made


def _way(url: str, role: str, error: asyncpg.InsufficientPrivilegeError) -> str:
    return (
        f"{without_passwords(url)} may not make Temporal's role and databases ({error.args[0]}). Set {ADMIN_URL} to a "
        f"role that may, for the first start alone; or run as a superuser:\n"
        f"  create role {role} login connection limit {CONNECTIONS};\n  \\password {role}\n"
        f"  create database {MAIN} owner {role};\n  create database {VISIBILITY} owner {role};\n"
        f"and set {TEMPORAL_URL}=postgresql://{role}:...@host:port/{MAIN}"
    )


async def _opened(database: ServerDatabase, name: str) -> asyncpg.Connection[asyncpg.Record]:
    secured = database.tls.get("SQL_TLS_ENABLED") == "true"
    mode = _mode(database) if secured else "prefer"
    files = "".join(f"&{key}={database.tls[each]}" for each, key in _FILES.items() if each in database.tls)
    host = f"[{database.host}]" if ":" in database.host else database.host
    url = f"postgresql://{host}:{database.port}/{name}?sslmode={mode}{files}"
    opened: asyncpg.Connection[asyncpg.Record] = await connect(
        url, user=database.user, password=database.password or None, timeout=10
    )
    return opened


def _mode(database: ServerDatabase) -> str:
    return "verify-full" if database.tls.get("SQL_HOST_VERIFICATION") == "true" else "require"
