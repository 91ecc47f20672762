"""The rights of the roles of workers and relays, checked when these start.

Such a role owns nothing. It can add to the audit trail, and not change it.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager

import asyncpg

from perdure._store.schema import Connection
from perdure._store.schema.kinds import RIGHTS, Kind
from perdure._store.sql import queries
from perdure.errors import NotPermitted

query = queries(__name__)

_NAMES = "select distinct proname from pg_proc where pronamespace = to_regnamespace('perdure')"


async def check_role(connection: Connection, kind: Kind) -> None:
    """Make sure that the role of this connection has what a worker, or a relay, needs.

    Raises:
        NotPermitted: it has not; the message names the role, what is missing, and the command that grants it.
    """
    rights = RIGHTS[kind]
    names = rights.names(row[0] for row in await connection.fetch(_NAMES))
    tables = json.dumps({name: list(may) for name, may in rights.tables.items()})
    missing = await connection.fetch(query("rights_missing"), tables, list(rights.usual), names)
    if missing:
        role = await connection.fetchval("select quote_ident(current_user)")
        more = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
        raise NotPermitted(_refusal(role, kind, f"{missing[0]['what']}{more}"))


async def check_mirror(connection: Connection, lifecycle: str, table: str, key: str, column: str) -> None:
    """Make sure that the role may read the key column of the app's table, and write the state column.

    Raises:
        NotPermitted: it may not; the message has the grant or the policy that is missing.
    """
    if not await connection.fetchval(query("may_show"), table, key, column):
        role = await connection.fetchval("select quote_ident(current_user)")
        raise NotPermitted(
            f"{lifecycle}: the role {role} may not write the column {column} of {table}: set "
            "PERDURE_COLUMN_DATABASE_URL to connect as a role of `perdure grant ROLE --as column --app MODULE:APP`"
        )
    if act := await connection.fetchval(query("may_pass_policies"), table):
        role = await connection.fetchval("select quote_ident(current_user)")
        raise NotPermitted(
            f"{lifecycle}: no policy lets the role {role} {act} rows of {table}, which has row-level security: give it "
            f"BYPASSRLS, or `create policy perdure on {table} to {role} using (true)`"
        )


@asynccontextmanager
async def permitted(connection: Connection, kind: Kind) -> AsyncIterator[None]:
    """Turn PostgreSQL's refusal of a right into `NotPermitted`, which names the role and the command."""
    role = await connection.fetchval("select quote_ident(current_user)")
    try:
        yield
    except asyncpg.InsufficientPrivilegeError as error:
        raise NotPermitted(_refusal(role, kind, str(error.args[0]))) from error


def granted(kind: Kind) -> str:
    """The way out for a role that lacks the rights of this kind."""
    return f"an owner of the schema runs `perdure grant ROLE --as {kind}`"


@contextmanager
def permitting(way_out: str) -> Iterator[None]:
    """Convert PostgreSQL's refusal of a right into `NotPermitted`, with this way out."""
    try:
        yield
    except asyncpg.InsufficientPrivilegeError as error:
        raise NotPermitted(f"{error.args[0]}: {way_out}") from error


def _refusal(role: str, kind: Kind, what: str) -> str:
    way = f"the owner of the schema runs `perdure grant {role} --as {kind}`"
    return f"the role {role} lacks a right that a {kind} needs ({what}): {way}"
