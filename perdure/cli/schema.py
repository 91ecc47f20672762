"""`perdure migrate`, `perdure schema`: the schema in the app's database."""

from __future__ import annotations

import asyncio

import asyncpg
import typer

from perdure._store import schema
from perdure._store.postgres import Database, answering
from perdure.cli.cli import RUN, cli
from perdure.cli.printing import print_line
from perdure.errors import NotPermitted
from perdure.settings import settings

_FEW = 10


@cli.command(epilog="Example: PERDURE_DATABASE_URL=postgresql://localhost/shop perdure migrate", rich_help_panel=RUN)
def migrate() -> None:
    """Bring the schema `perdure` in the app's database up to date; safe to run many times at once."""
    applied = asyncio.run(_migrate())
    for each in applied.migrations:
        print_line(f"applied {each.number:04} {each.name}")
    if applied.functions:
        names = [each.name for each in applied.functions]
        print_line(f"applied {len(names)} functions" if len(names) > _FEW else f"applied functions: {', '.join(names)}")
    if applied.newer:
        print_line(f"the schema is of a newer release than this one ({schema.release()}): its functions stay")
    elif not applied.anything:
        print_line("up to date")


@cli.command("schema", epilog="Example: perdure schema > perdure.sql", rich_help_panel=RUN)
def print_schema() -> None:
    """Print the SQL of the schema, for Alembic, Django migrations and others."""
    typer.echo(schema.script(), nl=False)


async def _migrate() -> schema.Applied:
    database = Database(settings().database_url, most=2)
    pool = await database.open()
    try:
        with answering():
            async with pool.acquire() as connection:
                try:
                    return await schema.migrate(connection)
                except asyncpg.InsufficientPrivilegeError as error:
                    raise NotPermitted(await _who_may(connection, error)) from error
    finally:
        await database.close()


async def _who_may(connection: schema.Connection, error: asyncpg.InsufficientPrivilegeError) -> str:
    row = await connection.fetchrow(
        "select quote_ident(current_user), quote_ident(current_database()), "
        "(select quote_ident(pg_get_userbyid(nspowner)) from pg_namespace where nspname = 'perdure')"
    )
    assert row is not None
    role, database, owner = row
    if owner is None:
        way = f"`grant create on database {database} to {role}`, or run `perdure migrate` as the owner of the database"
    else:
        way = f"run `perdure migrate` as {owner}, who owns it; a worker needs `perdure grant {role} --as worker` alone"
    return f"the role {role} may not change the schema perdure ({error.args[0]}): {way}"
