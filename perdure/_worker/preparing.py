"""The checks of every process of the fleet before it begins, on a connection of its own."""

from __future__ import annotations

import logging

from perdure._store import schema
from perdure._store.connecting import report_weaknesses
from perdure._store.schema import Connection
from perdure._store.schema.kinds import Kind
from perdure._store.schema.rights import check_role
from perdure.logs import log_event

log = logging.getLogger("perdure.store")

_SUPERUSER = "select rolsuper from pg_catalog.pg_roles where rolname = current_user"


async def prepare(connection: Connection, kind: Kind) -> None:
    """Check role, schema and server, make the months to come, and note for the feed which database this is.

    Raises:
        PerdureError: the role lacks a right, or the schema is missing, older or too new. The message names the way
            out.
    """
    await check_role(connection, kind)
    await schema.check(connection)
    await report_weaknesses(connection)
    if await connection.fetchval(_SUPERUSER):
        what = "this role is a superuser, so whoever takes it over has the whole server: perdure grant ROLE --as "
        log_event(log, f"{what}{kind}", level=logging.WARNING)
    await schema.make_months(connection)
    await schema.note_database(connection)
