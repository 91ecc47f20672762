"""The command `perdure`."""

from __future__ import annotations

import asyncio
from typing import Annotated

import typer

from perdure import schema
from perdure.errors import PerdureError
from perdure.fleet.worker import leave, load_app, run_worker, stop_at_once
from perdure.logs import set_up
from perdure.settings import settings
from perdure.store.postgres import Database

cli = typer.Typer(no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False, help=__doc__)


@cli.command(epilog="Example: perdure worker workers.app:app")
def worker(app: Annotated[str, typer.Argument(help="the App to run, as package.module:name")]) -> None:
    """Run a worker for an app, until SIGTERM."""
    stop_at_once()
    config = settings()
    set_up(config.log, config.log_level)
    asyncio.run(run_worker(load_app(app), config))


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


def main() -> None:
    """Entry point: errors are one line; exit status 0 = done, 1 = it could not be done, 2 = wrong usage."""
    try:
        cli()
    except SystemExit as end:
        leave(end.code if isinstance(end.code, int) else 1)
    except PerdureError as error:
        typer.echo(f"perdure: {error}", err=True)
        leave(1)
    except KeyboardInterrupt:
        leave(130)


async def _migrate() -> list[schema.Migration]:
    database = Database(settings().database_url, most=2)
    pool = await database.open()
    try:
        async with pool.acquire() as connection:
            return await schema.migrate(connection)
    finally:
        await database.close()


if __name__ == "__main__":
    main()
