"""`perdure forget`: erases what is on record of one finished entity."""

from __future__ import annotations

import asyncio
from typing import Annotated

import asyncpg
import typer

from perdure.app import App
from perdure.archiving.forgetting import Forgotten
from perdure.archiving.forgetting import forget as erase
from perdure.command.cli import MEND, cli
from perdure.command.database import opened
from perdure.command.printing import complain, print_line
from perdure.command.who import By, request
from perdure.contracts.keys import Entity
from perdure.errors import NotNow
from perdure.fleet.plugin import PerdurePlugin
from perdure.fleet.worker import connect
from perdure.ownership.exchange import Exchange
from perdure.queries import query
from perdure.settings import settings
from perdure.store.postgres import answering


@cli.command(epilog="Example: perdure forget order 42 --by ann --yes", rich_help_panel=MEND)
def forget(
    lifecycle: Annotated[str, typer.Argument(help="name of the lifecycle")],
    entity_id: Annotated[str, typer.Argument(metavar="ID", help="the entity's id")],
    by: By = "",
    yes: Annotated[bool, typer.Option("--yes", help="don't ask")] = False,
) -> None:
    """Erase a finished entity: input, snapshot, receipts, transitions, and its histories in Temporal.

    That it finished stays on record, so it is not started again. Safe to run again. Exit status 1 where an archive
    could not be read.
    """
    entity = Entity(lifecycle, entity_id)
    if not yes:
        typer.confirm(f"Erase {entity} for good?", abort=True)
    gone = asyncio.run(_forget(entity, request(by).by))
    _tell(entity, gone)
    if gone.unread:
        raise typer.Exit(1)


async def _forget(entity: Entity, by: str) -> Forgotten:
    config = settings()
    try:
        async with opened() as pool:
            with answering():
                async with pool.acquire() as connection:
                    engine = await connect(PerdurePlugin(App([], []), config))
                    # Else it would be gone here, and stay in the Temporal that has it.
                    bound = await connection.fetchrow(query("database"))
                    assert bound is not None
                    await Exchange(engine, config).check_binding(bound)
                    return await erase(connection, engine, config.scope, entity, by)
    except asyncpg.LockNotAvailableError as error:
        raise NotNow(f"somebody holds {entity} ({error}): try again") from None


def _tell(entity: Entity, gone: Forgotten) -> None:
    rows = ", ".join(f"{count} of {table}" for table, count in sorted(gone.rows.items()) if count)
    print_line(f"forgot {entity}: {rows or 'nothing more'} in the database, {gone.runs} histories in Temporal")
    for path in gone.archives:
        print_line(f"it is in an archive, from which you have to erase it: {path}")
    for each in gone.unread:
        complain(f"it may be in an archive: {each}")
