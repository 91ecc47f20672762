"""Checks, before the first row, that an import may begin."""

from __future__ import annotations

from perdure._store.schema import Connection
from perdure._store.schema.kinds import Kind
from perdure._store.schema.rights import granted
from perdure._store.sql import queries
from perdure.errors import NotPermitted, NotThisDatabase

query = queries(__name__)

_COPY = (
    "this database is a copy, and the rows belong to its original, which does their work: import them there. Here, try "
    "the import with --dry-run, and start entities of the copy's own with perdure.start"
)


async def check_may_import(db: Connection, *, dry_run: bool) -> None:
    """Make sure that this role may import rows, and that they belong to this database (invariant 11).

    Raises:
        NotPermitted: the role may import no row.
        NotThisDatabase: the database is a copy, and this is no dry run.
    """
    if not await db.fetchval(query("may_import")):
        role = await db.fetchval("select quote_ident(current_user)")
        raise NotPermitted(f"the role {role} may not import rows: {await granted(db, Kind.OPERATOR)}")
    if not dry_run and await db.fetchval(query("is_copy")):
        raise NotThisDatabase(_COPY)
