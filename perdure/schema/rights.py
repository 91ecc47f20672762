"""What the role of a worker needs: `perdure grant ROLE --worker` gives it, and a worker checks it when it starts.

It owns nothing. What is on record for the audit it can add to, and not change.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import asyncpg

from perdure.errors import NotPermitted
from perdure.queries import query
from perdure.schema import Connection

_USUAL = ("select", "insert", "update", "delete")
_LESS = {
    **dict.fromkeys(("migration", "month", "kept_effect", "carried_transition", "feed_origin"), ("select",)),
    **dict.fromkeys(("transition", "finished"), ("select", "insert")),
    **dict.fromkeys(("ident", "effect"), ("select", "insert", "update")),
}
"""Tables of which it needs less than the usual."""


async def worker_grants(connection: Connection, role: str) -> list[str]:
    """The statements that give a role what a worker needs; `role` is quoted already."""
    tables = await connection.fetch(query("tables"))
    return [
        f"grant usage on schema perdure to {role}",
        *(f"grant {', '.join(_LESS.get(each['name'], _USUAL))} on perdure.{each['name']} to {role}" for each in tables),
        f"grant usage on all sequences in schema perdure to {role}",
        f"grant execute on all functions in schema perdure to {role}",
    ]


async def check_worker(connection: Connection) -> None:
    """Make sure that the role of this connection has what a worker needs.

    Raises:
        NotPermitted: it has not; the message names the role, what is missing, and the command that grants it.
    """
    missing = await connection.fetch(query("rights_missing"), json.dumps(_LESS), list(_USUAL))
    if missing:
        role = await connection.fetchval("select quote_ident(current_user)")
        more = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
        raise NotPermitted(_refusal(role, f"{missing[0]['what']}{more}"))


async def check_mirror(connection: Connection, lifecycle: str, table: str, key: str, column: str) -> None:
    """Make sure that the role may read the key column of the app's table, and write the state column.

    Raises:
        NotPermitted: it may not; the message says what to grant.
    """
    if not await connection.fetchval(query("may_show"), table, key, column):
        role = await connection.fetchval("select quote_ident(current_user)")
        raise NotPermitted(
            f"{lifecycle}: the role {role} may not write the column {column} of {table}: the owner of the table runs "
            f"`grant select ({key}), update ({column}) on {table} to {role}`"
        )


@asynccontextmanager
async def permitted(connection: Connection) -> AsyncIterator[None]:
    """Turn PostgreSQL's refusal of a right into `NotPermitted`, which names the role and the command."""
    role = await connection.fetchval("select quote_ident(current_user)")
    try:
        yield
    except asyncpg.InsufficientPrivilegeError as error:
        raise NotPermitted(_refusal(role, str(error.args[0]))) from error


def _refusal(role: str, what: str) -> str:
    way = f"the owner of the schema runs `perdure grant {role} --worker`"
    return f"the role {role} lacks a right that a worker needs ({what}): {way}"
