"""The command `perdure`."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from perdure import schema
from perdure.errors import PerdureError
from perdure.fleet.replaying import Replayed, from_files, from_server, replay, saved
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


@cli.command("replay", epilog="Example: perdure replay workers.app:app --from tests/histories")
def replay_histories(
    app: Annotated[str, typer.Argument(help="the App whose code is tried, as package.module:name")],
    files: Annotated[
        list[Path] | None, typer.Option("--from", help="a file, or a folder of files; may be given often", exists=True)
    ] = None,
    query: Annotated[str | None, typer.Option(help="list filter of runs; default: the app's open ones")] = None,
    limit: Annotated[int | None, typer.Option(help="at most so many runs", min=1)] = None,
    save: Annotated[Path | None, typer.Option(help="folder to write the histories to", file_okay=False)] = None,
    namespace: Annotated[str | None, typer.Option(help="instead of TEMPORAL_NAMESPACE")] = None,
) -> None:
    """Replay histories with today's code: from files, else from the server that TEMPORAL_* names.

    One line for each run that the code can't follow. Exit status 1 if there is one, or nothing to replay.
    """
    if files and (query or namespace):
        raise typer.BadParameter("--from reads files, --query and --namespace ask a server: give one of both")
    if namespace:
        os.environ["TEMPORAL_NAMESPACE"] = namespace
    config, loaded = settings(), load_app(app)
    histories = from_files(files) if files else from_server(loaded, config, query, limit)
    if save:
        histories = saved(histories, save)
    seen = asyncio.run(replay(loaded, config, histories, limit=limit, differs=typer.echo, done=_progress))
    _progress(seen, last=True)
    typer.echo(f"{seen.runs} runs replayed, {seen.differences} can't be followed, {seen.foreign} of other workflows")
    if seen.differences or not seen.runs:
        raise typer.Exit(1)


def _progress(seen: Replayed, *, last: bool = False) -> None:
    if sys.stderr.isatty() and (last or seen.runs % 10 == 0):
        end = "\n" if last else ""
        typer.echo(f"\r{seen.runs} runs, {seen.differences} can't be followed{end}", err=True, nl=False)


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
