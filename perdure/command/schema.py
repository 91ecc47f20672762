"""`perdure migrate`, `perdure schema`: the schema in the app's database."""

from __future__ import annotations

import asyncio

import typer

from perdure import schema
from perdure.command.cli import cli
from perdure.settings import settings
from perdure.store.postgres import Database


@cli.command(epilog="Example: PERDURE_DATABASE_URL=postgresql://localhost/shop perdure migrate")
def migrate() -> None:
    """Bring the schema `perdure` in the app's database up to date; safe to run many times at once."""
    applied = asyncio.run(_migrate())
    for each in applied:
        typer.echo(f"applied {each.number:04} {each.name}")
    if not applied:
        typer.echo("up to date")


@cli.command("schema", epilog="Example: perdure schema > perdure.sql")
def print_schema() -> None:
    """Print the SQL of the schema, for Alembic, Django migrations and others."""
    typer.echo(schema.script(), nl=False)


async def _migrate() -> list[schema.Migration]:
    database = Database(settings().database_url, most=2)
    pool = await database.open()
    try:
        async with pool.acquire() as connection:
            return await schema.migrate(connection)
    finally:
        await database.close()
