"""`perdure grant`: the rights of a role that is not the owner of the schema."""

from __future__ import annotations

import asyncio
from typing import Annotated

import asyncpg
import typer

from perdure.app import App
from perdure.command.app_option import AppOption, loaded
from perdure.command.cli import RUN, cli
from perdure.command.database import transaction
from perdure.errors import DeclarationError, InvalidSetting, NotPermitted
from perdure.queries import query
from perdure.schema import Connection
from perdure.schema.rights import worker_grants

APP = ("start", "signal", "cancel", "status", "feed", "feed_position", "schema_version")
_OWNS = "select pg_has_role(nspowner, 'usage') from pg_namespace where nspname = 'perdure'"
OPERATOR = ("restart", "settle", "retry_rejected", "drop_rejected", "adopt", "note", "start_again")


@cli.command(epilog="Example: perdure grant shop_app", rich_help_panel=RUN)
def grant(
    role: Annotated[str, typer.Argument(help="a role that exists")],
    read: Annotated[bool, typer.Option("--read", help="also: select on the tables (lists, reports)")] = False,
    operator: Annotated[bool, typer.Option("--operator", help="also: restart, settle, retry and drop")] = False,
    worker: Annotated[bool, typer.Option("--worker", help="instead: what a worker or a relay needs")] = False,
    app: AppOption = None,
) -> None:
    """Let an app's role start, signal, cancel and follow lifecycles, or with --worker run workers.

    A worker need not own the schema. With --app it gets the columns that the app's lifecycles show their state in, too.
    Prints the SQL that it ran; may be repeated.
    """
    for statement in asyncio.run(_grant(role, read, operator, worker, loaded(app) if worker else None)):
        typer.echo(f"{statement};")


async def _grant(role: str, read: bool, operator: bool, worker: bool, app: App | None) -> list[str]:
    async with transaction() as connection:
        if not await connection.fetchval(_OWNS):  # PostgreSQL only warns where there is no grant option
            raise NotPermitted("only the owner of the schema can grant rights in it: run `perdure grant` as its owner")
        statements = [] if worker and not (read or operator) else await _statements(connection, role, read, operator)
        if worker:
            statements += await _for_worker(connection, role, app)
        for statement in statements:
            try:
                await connection.execute(statement)
            except asyncpg.InsufficientPrivilegeError as error:
                raise NotPermitted(f"`{statement}`: {error.args[0]}: run it as the owner of that table") from error
    return statements


async def _for_worker(connection: Connection, role: str, app: App | None) -> list[str]:
    name = await _quoted(connection, role)
    statements = await worker_grants(connection, name)
    for lifecycle in app.lifecycles.values() if app else ():
        if (mirror := lifecycle.mirror) is None:
            continue
        found = await connection.fetchrow(query("mirror_names"), mirror.table, mirror.key, mirror.column)
        if found is None:
            raise DeclarationError(f"mirror={mirror} names a table or column that the database does not have")
        statements += [
            f"grant usage on schema {found['schema']} to {name}",
            f"grant select ({found['key']}), update ({found['state']}) on {found['name']} to {name}",
        ]
    return list(dict.fromkeys(statements))


async def _quoted(connection: Connection, role: str) -> str:
    name = await connection.fetchval("select quote_ident(rolname) from pg_roles where rolname = $1", role)
    if name is None:
        raise InvalidSetting(f"there is no role {role!r} in this PostgreSQL: create role ... login, first")
    return str(name)


async def _statements(connection: Connection, role: str, read: bool, operator: bool) -> list[str]:
    name = await _quoted(connection, role)
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
