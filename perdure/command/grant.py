"""`perdure grant`: the rights of a role that is not the owner of the schema."""

from __future__ import annotations

import asyncio
from typing import Annotated

import typer

from perdure.command.cli import cli
from perdure.command.database import transaction
from perdure.errors import InvalidSetting
from perdure.schema import Connection

APP = ("start", "signal", "cancel", "status", "feed", "feed_position", "schema_version")
OPERATOR = ("restart", "settle", "retry_rejected", "drop_rejected", "adopt", "note", "start_again")


@cli.command(epilog="Example: perdure grant shop_app")
def grant(
    role: Annotated[str, typer.Argument(help="a role that exists")],
    read: Annotated[bool, typer.Option("--read", help="also: select on the tables (lists, reports)")] = False,
    operator: Annotated[bool, typer.Option("--operator", help="also: restart, settle, retry and drop")] = False,
) -> None:
    """Let an app's role start, signal, cancel and follow lifecycles. Prints the SQL that it ran; may be repeated."""
    for statement in asyncio.run(_grant(role, read, operator)):
        typer.echo(f"{statement};")


async def _grant(role: str, read: bool, operator: bool) -> list[str]:
    async with transaction() as connection:
        statements = await _statements(connection, role, read, operator)
        for statement in statements:
            await connection.execute(statement)
    return statements


async def _statements(connection: Connection, role: str, read: bool, operator: bool) -> list[str]:
    name = await connection.fetchval("select quote_ident(rolname) from pg_roles where rolname = $1", role)
    if name is None:
        raise InvalidSetting(f"there is no role {role!r} in this PostgreSQL: create role ... login, first")
    wanted = [*APP, *(OPERATOR if operator else ())]
    found = await connection.fetch(
        "select p.oid::regprocedure::text from pg_proc p join unnest($1::text[]) with ordinality w(name, n) "
        "on p.proname = w.name where p.pronamespace = 'perdure'::regnamespace order by w.n, 1",
        wanted,
    )
    return [
        f"grant usage on schema perdure to {name}",
        *(f"grant execute on function {row[0]} to {name}" for row in found),
        *([f"grant select on all tables in schema perdure to {name}"] if read else []),
    ]
