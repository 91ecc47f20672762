"""`perdure grant`: the rights of a role that is not the owner of the schema."""

from __future__ import annotations

import asyncio
from typing import Annotated

import asyncpg
import typer

from perdure._operations.selection import known_lifecycles
from perdure._store.schema import Connection
from perdure._store.schema.grants import ALONE, Grant, statements
from perdure._store.schema.kinds import Kind
from perdure._text.shown import one_line
from perdure._worker.columns import declare
from perdure.app import App
from perdure.cli.app_option import AppOption, loaded
from perdure.cli.cli import RUN, cli
from perdure.cli.database import transaction
from perdure.cli.printing import print_line, print_note
from perdure.contracts.states import suggestion
from perdure.errors import InvalidSetting, NotPermitted

_OWNS = "select pg_has_role(nspowner, 'usage') from pg_namespace where nspname = 'perdure'"


@cli.command(epilog="Example: perdure grant shop_app --as app --lifecycle order", rich_help_panel=RUN)
def grant(
    role: Annotated[str, typer.Argument(help="a role that exists")],
    kind: Annotated[Kind, typer.Option("--as", help="what the role is for, see `perdure help security`")],
    lifecycle: Annotated[
        list[str] | None, typer.Option(help="only this lifecycle; may be repeated. Default: every lifecycle")
    ] = None,
    tenant: Annotated[
        list[str] | None, typer.Option(help="only entities of this tenant; may be repeated. Default: every tenant")
    ] = None,
    app: AppOption = None,
) -> None:
    """Give a role what it needs for one purpose, and nothing else. A role may have several purposes.

    Repeat it with other lifecycles or tenants to replace those that were granted for this purpose. The role then loses
    what none of its purposes gives any more. With `--as column` and --app, the columns that the app's lifecycles
    declare are put on record, those that they no longer declare are removed from it, and the role may write them. --app
    also names lifecycles of which the database has no entity yet. Prints the SQL that it ran.
    """
    given = Grant(role, kind, tuple(lifecycle or ()), tuple(tenant or ()))
    if kind is Kind.COLUMN and app is None:
        raise typer.BadParameter(
            "give --app package.module:name, whose columns the role is to write", param_hint="--app"
        )
    declared = loaded(app) if kind is Kind.COLUMN or lifecycle else None
    for statement in asyncio.run(_grant(given, declared)):
        print_line(one_line(f"{statement};"))


async def _grant(given: Grant, app: App | None) -> list[str]:
    async with transaction() as connection:
        if not await connection.fetchval(_OWNS):  # PostgreSQL only warns where there is no grant option
            raise NotPermitted("only the owner of the schema can grant rights in it: run `perdure grant` as its owner")
        await connection.execute(ALONE)
        await _check(connection, given, app)
        found = await statements(connection, given)
        if given.kind is Kind.COLUMN and app is not None:
            found += await _columns(connection, given.role, app)
        for statement in found:
            try:
                await connection.execute(statement)
            except asyncpg.InsufficientPrivilegeError as error:
                raise NotPermitted(f"`{statement}`: {error.args[0]}: run it as the owner of that table") from error
    return found


async def _check(connection: Connection, given: Grant, app: App | None) -> None:
    """Refuse a lifecycle that neither the database nor the app has; a database without entities can't tell."""
    known = await known_lifecycles(connection, app)
    for name in given.lifecycles:
        if name in known:
            continue
        if known:
            more = "" if app else "; give --app package.module:name if nothing of it was started yet"
            raise InvalidSetting(f"no lifecycle is named {name!r}{suggestion(name, known)}{more}")
        print_note(f"perdure: nothing shows whether there is a lifecycle {name!r}: give --app package.module:name")


async def _columns(connection: Connection, role: str, app: App) -> list[str]:
    """Resolve the columns that are declared, and put them on record; the statements that let the role write them."""
    columns = {name: lifecycle.mirror for name, lifecycle in app.lifecycles.items()}
    name = await connection.fetchval("select quote_ident($1)", role)
    found = []
    for row in (await declare(connection, columns)).values():
        found += [
            f"grant usage on schema {row['schema']} to {name}",
            f"grant select ({row['key']}, {row['state']}), update ({row['state']}) on {row['app_table']} to {name}",
        ]
    return list(dict.fromkeys(found))
