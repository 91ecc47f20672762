"""Whether the URL of a second role leads to the same database as the first one."""

from __future__ import annotations

import secrets

from perdure._store.schema import Connection
from perdure.errors import NotThisDatabase

_HOLD = "select pg_catalog.pg_advisory_xact_lock($1)"
_IS_FREE = "select pg_catalog.pg_try_advisory_xact_lock($1)"


async def check_same_database(connection: Connection, other: Connection, setting: str) -> None:
    """Take an advisory lock on one connection, and find it held on the other one.

    Such a lock is of one database of one running server, under whatever host name, so a copy does not have it. Every
    role may take it, and in a transaction it also works behind PgBouncer.

    Args:
        connection: to the database in PERDURE_DATABASE_URL, without an open transaction.
        other: the same for `setting`.
        setting: the variable with the other URL.

    Raises:
        NotThisDatabase: they are two databases, or two servers of one.
    """
    key = secrets.randbits(63)
    async with connection.transaction(), other.transaction():
        await connection.execute(_HOLD, key)
        if not await other.fetchval(_IS_FREE, key):
            return
    raise NotThisDatabase(
        f"{setting} leads to another database than PERDURE_DATABASE_URL: write the same server and database into both"
    )
