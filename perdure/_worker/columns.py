"""The columns of the app's tables that show states. The schema's owner declares them in the database, so that no order
names a table. The session that writes them lends its rights to the triggers of these tables."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from perdure._store.schema import Connection
from perdure._store.schema.rights import check_mirror
from perdure._store.sql import queries
from perdure.contracts.app_column import AppColumn
from perdure.errors import DeclarationError, NotPermitted
from perdure.logs import log_event

query = queries(__name__)

log = logging.getLogger("perdure.store")

Declared = Mapping[str, AppColumn | None]
"""Columns by the name of the lifecycle."""

_OWNS = (
    "select has_table_privilege('perdure.app_column', 'insert') and has_table_privilege('perdure.app_column', 'delete')"
)
_USER = "select session_user"


async def find(connection: Connection, lifecycle: str, column: AppColumn) -> Any:
    """The names of a declared column in the database, see `queries/app_column.sql`.

    Raises:
        DeclarationError: there is no such table or column, no update can change it, or its key is not unique.
    """
    found = await connection.fetchrow(query("app_column"), column.table, column.key, column.column)
    if problem := _problem(found):
        raise DeclarationError(f"{lifecycle}: mirror={column} {problem}")
    return found


def _problem(found: Any) -> str | None:
    if found is None:
        return (
            "names a table or column that the database does not have: run the migration that makes it, or correct the "
            "column"
        )
    if not found["updatable"]:
        return (
            "names a column that no update can change, because it is generated, or of a view that joins or groups "
            "rows: name another column"
        )
    if not found["unique_key"]:
        return (
            "has a key that may not be unique, so a state could be shown in rows of other entities: name another key, "
            f"or `create unique index on {found['app_table']} ({found['key']})`"
        )
    return None


async def declare(connection: Connection, columns: Declared) -> dict[str, Any]:
    """Record the columns of these lifecycles in the database, and forget those that they no longer have. It needs the
    rights of the schema's owner.

    Returns:
        The names of each column, as `find` returns them, by lifecycle.

    Raises:
        DeclarationError: as `find` raises it.
    """
    declared: dict[str, Any] = {}
    for lifecycle, column in columns.items():
        if column is None:
            await connection.execute(query("forget_column"), lifecycle)
        else:
            declared[lifecycle] = found = await find(connection, lifecycle, column)
            await connection.execute(query("declare_column"), lifecycle, found["app_table"], column.key, column.column)
    return declared


async def prepare(connection: Connection, writer: Connection, columns: Declared) -> None:
    """Declare the columns if this role owns the schema, else check that they are declared. Check that they can be
    written. No column is forgotten: workers of newer code may run, which have it.

    Args:
        writer: a connection of the role that writes the columns; it may be `connection`.

    Raises:
        DeclarationError: as `find` raises it.
        NotPermitted: another column is recorded, or the role may not write the column. The message names the command.
    """
    if await connection.fetchval(_OWNS):
        async with connection.transaction():
            await declare(connection, {name: column for name, column in columns.items() if column is not None})
    await check_columns(connection, writer, columns)


async def check_columns(connection: Connection, writer: Connection, columns: Declared) -> None:
    """Check that the columns are recorded, and that `writer` may write them; raises as `prepare`."""
    for lifecycle, column in columns.items():
        if column is None:
            continue
        found = await find(connection, lifecycle, column)
        table = found["app_table"]
        if not await connection.fetchval(query("column_declared"), lifecycle, table, column.key, column.column):
            raise NotPermitted(
                f"{lifecycle}: {table}.{found['state']} is not on record as its column: the owner of the schema runs "
                "`perdure grant ROLE --as column --app MODULE:APP` for the role in PERDURE_COLUMN_DATABASE_URL"
            )
        await check_mirror(writer, lifecycle, table, column.key, column.column)
        if not found["own"] and await connection.fetchval(_USER) == await writer.fetchval(_USER):
            what = "the triggers of this table run with the rights of the worker: set PERDURE_COLUMN_DATABASE_URL"
            log_event(log, what, level=logging.WARNING, table=table, owner=found["owner"], lifecycle=lifecycle)
