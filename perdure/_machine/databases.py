"""Temporal's two databases in the given PostgreSQL, with a role that owns them and may do nothing else."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from dataclasses import replace
from typing import Any

import asyncpg

from perdure._machine.addresses import role_database, server_database
from perdure._machine.folder import Folder
from perdure._machine.scram import verifier
from perdure._store.secured import connect
from perdure._store.sql import queries
from perdure.errors import InvalidSetting, NotNow, NotPermitted, NotThisDatabase
from perdure.logs import log_event
from perdure.servers.temporal_on_postgres import MAIN, VISIBILITY, ServerDatabase
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
_LOOKS = 10
"""Seconds for which the sessions of an ended Temporal may last."""
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
        await (await opened(database, name)).close()


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
        NotNow: another `perdure up` uses them.
        InvalidSetting: a URL can't be used.
    """
    if given_url is not None:
        database = role_database(TEMPORAL_URL, given_url)
        await _make_all(given_url, database.user, None)
        return database
    name, url = (ADMIN_URL, admin_url) if admin_url else ("PERDURE_DATABASE_URL", app_url)
    found = server_database(name, url)
    tls = {key: value for key, value in found.tls.items() if "CERT" not in key}  # that of the other role
    database = replace(found, user=ROLE, tls=tls)
    if (password := folder.password()) is not None:
        database = replace(database, password=password)
        if await _are_ours(database):
            return database
    return replace(database, password=await _make_all(url, ROLE, folder))


async def _are_ours(database: ServerDatabase) -> bool:
    """Whether the role may connect to both. Where PostgreSQL asks for no password, that alone proves nothing.

    Raises:
        NotThisDatabase: somebody else has made them.
    """
    try:
        await check_connection(database)
    except (
        asyncpg.InvalidAuthorizationSpecificationError,
        asyncpg.InvalidCatalogNameError,
        asyncpg.InsufficientPrivilegeError,
    ):
        return False
    connection = await opened(database, MAIN)
    try:
        found = await connection.fetchrow(query("temporal_databases"), database.user, MAIN, VISIBILITY)
    finally:
        await connection.close()
    assert found is not None
    _refuse_strangers(f"{database.host}:{database.port}", database.user, found, ours=True)
    return True


async def _make_all(url: str, role: str, folder: Folder | None) -> str:
    """Make what is missing, as the role in `url`; the password of `role`.

    Args:
        url: of a role that may.
        role: Temporal's.
        folder: keeps the password; None = the role is the operator's, and stays as it is.
    """
    ours = folder is not None
    admin = await connect(url)
    try:
        found = await admin.fetchrow(query("temporal_databases"), role, MAIN, VISIBILITY)
        _refuse_strangers(without_passwords(url), role, found, ours=ours)
        missing = [name for name in (MAIN, VISIBILITY) if found[f"owner_of_{name}"] is None]
        if ours and not found["may_make_roles"]:
            raise NotPermitted(_way(url, role, found["role"], missing, "it may create no roles"))
        if missing and not found["may_make_databases"]:
            raise NotPermitted(_way(url, role, found["role"], missing, "it may create no databases"))
        if ours:
            await _until_unused(admin, without_passwords(url), role)
        password = "" if folder is None else folder.make_password()
        try:
            if password:
                await _make_role(admin, role, password, there=found["role"])
            joins = ours and bool(missing) and not found["superuser"]
            await _make_missing(admin, role, missing, ours=ours, joins=joins)
        except asyncpg.InsufficientPrivilegeError as error:
            raise NotPermitted(_way(url, role, found["role"], missing, error.args[0])) from error
    finally:
        await admin.close()
    log_event(log, "made Temporal's databases", role=role, databases=",".join(missing) or None)
    return password


def _refuse_strangers(where: str, role: str, found: asyncpg.Record, *, ours: bool) -> None:
    owners = {name: found[f"owner_of_{name}"] for name in (MAIN, VISIBILITY)}
    strangers = [f"database {name} of {owner}" for name, owner in owners.items() if owner not in (None, role)]
    if ours and found["role"] and found["comment"] != _OURS:
        strangers.insert(0, f"role {role}")
    if strangers:
        raise NotThisDatabase(
            f"PostgreSQL at {where} has a {' and a '.join(strangers)} that `perdure up` has not "
            f"made: name a role that owns {MAIN} and {VISIBILITY} by {TEMPORAL_URL}"
        )


async def _until_unused(admin: asyncpg.Connection[asyncpg.Record], where: str, role: str) -> None:
    """Wait until nobody uses the role, which gets another password. A Temporal that was killed has sessions for a
    moment.

    Raises:
        NotNow: somebody uses it.
    """
    for _ in range(_LOOKS):
        if not await admin.fetchval(query("sessions_of_role"), role):
            return
        await asyncio.sleep(1)
    raise NotNow(
        f"another `perdure up` uses Temporal's databases in PostgreSQL at {where}, with another folder or on another "
        f"machine: stop that one. If there is none, end the sessions that it has left: "
        f"select pg_terminate_backend(pid) from pg_stat_activity where usename = '{role}'"
    )


async def _make_role(admin: asyncpg.Connection[asyncpg.Record], role: str, password: str, *, there: bool) -> None:
    secret = f"password '{verifier(password)}'"
    if there:
        await admin.execute(f"alter role {role} {secret}")
        return
    async with admin.transaction():  # a role without the comment is taken for somebody else's
        await admin.execute(
            f"create role {role} login nosuperuser nocreatedb nocreaterole connection limit {CONNECTIONS} {secret}"
        )
        await admin.execute(f"comment on role {role} is '{_OURS}'")


async def _make_missing(
    admin: asyncpg.Connection[asyncpg.Record], role: str, missing: list[str], *, ours: bool, joins: bool
) -> None:
    """Make the databases.

    Args:
        admin: a connection of a role that may.
        role: their owner.
        missing: their names.
        ours: nobody else may connect to them; else that is the operator's choice.
        joins: to give a database to the role, the other one must be in it for that time.
    """
    if joins:
        await admin.execute(f"grant {role} to current_user")
    try:
        for name in missing:
            await admin.execute(f"create database {name} owner \"{role}\" encoding 'UTF8' template template0")
            if ours:
                await admin.execute(f"revoke connect, temporary on database {name} from public")
    finally:
        if joins:
            await admin.execute(f"revoke {role} from current_user")


def _way(url: str, role: str, there: bool, missing: list[str], why: str) -> str:
    made = [] if there else [f"create role {role} login connection limit {CONNECTIONS};"]
    made += [f"\\password {role}", *(f"create database {name} owner {role};" for name in missing)]
    return (
        f"{without_passwords(url)} may not make Temporal's role and databases ({why}). Set {ADMIN_URL} to a "
        f"role that may, for the first start alone; or run as a superuser:\n  "
        + "\n  ".join(made)
        + f"\nand set {TEMPORAL_URL}=postgresql://{role}:...@host:port/{MAIN}"
    )


async def opened(database: ServerDatabase, name: str) -> asyncpg.Connection[asyncpg.Record]:
    """A connection to one of the two databases, as Temporal's server makes it."""
    secured = database.tls.get("SQL_TLS_ENABLED") == "true"
    mode = _mode(database) if secured else "prefer"
    files = "".join(f"&{key}={database.tls[each]}" for each, key in _FILES.items() if each in database.tls)
    host = f"[{database.host}]" if ":" in database.host else database.host
    url = f"postgresql://{host}:{database.port}/{name}?sslmode={mode}{files}"
    opened: asyncpg.Connection[asyncpg.Record] = await connect(
        url, user=database.user, password=database.password, timeout=10
    )
    return opened


def _mode(database: ServerDatabase) -> str:
    return "verify-full" if database.tls.get("SQL_HOST_VERIFICATION") == "true" else "require"
