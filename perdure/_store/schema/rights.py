"""The rights of the roles of workers and relays, checked when these start.

Such a role owns nothing. It can add to the audit trail, and not change it.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import asyncpg

from perdure._store.connecting import Pool
from perdure._store.schema import Connection
from perdure._store.schema.kinds import DISPATCHED, RIGHTS, Kind
from perdure._store.sql import queries
from perdure.errors import NotPermitted

query = queries(__name__)

OWNER = "run it as the owner of the schema"
"""The way out for a role that lacks a right which no grant of Perdure's gives."""

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


async def granted(db: Connection | Pool, *kinds: Kind) -> str:
    """The way out for the role of this session, which lacks a right that each of these kinds has."""
    names = {name for kind in kinds for name in RIGHTS[kind].functions or ()} & DISPATCHED
    row = await db.fetchrow(query("role_limited"), sorted(names))
    assert row is not None
    wider = "this needs a grant without --lifecycle and --tenant, which widens what the role sees: "
    others = "".join(f" or `--as {kind}`" for kind in kinds[1:])
    way = f"an owner of the schema runs `perdure grant {row['role']} --as {kinds[0]}`{others}"
    return f"{wider if row['limited'] else ''}{way}"


@asynccontextmanager
async def permitting(pool: Pool, *kinds: Kind, way_out: str = OWNER) -> AsyncIterator[None]:
    """Convert PostgreSQL's refusal of a right into `NotPermitted`, with the way out.

    Args:
        pool: where to ask for the role; no connection of it may be held when the refusal comes.
        kinds: each has the right.
        way_out: where none has it.
    """
    try:
        yield
    except asyncpg.InsufficientPrivilegeError as error:
        way = await granted(pool, *kinds) if kinds else way_out
        raise NotPermitted(f"{error.args[0]}: {way}") from error


def _refusal(role: str, kind: Kind, what: str) -> str:
    way = f"the owner of the schema runs `perdure grant {role} --as {kind}`"
    return f"the role {role} lacks a right that a {kind} needs ({what}): {way}"
