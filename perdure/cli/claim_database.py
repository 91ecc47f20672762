"""`perdure database claim`: says what a copied, restored or moved database is."""

from __future__ import annotations

import asyncio
from typing import Annotated

import typer

from perdure._services.ownership.claiming import What, claim, look
from perdure._services.ownership.exchange import Exchange
from perdure._store.postgres import Database
from perdure._worker.plugin import PerdurePlugin
from perdure._worker.worker import connect
from perdure.app import App
from perdure.cli.cli import MEND, cli
from perdure.cli.printing import print_line
from perdure.settings import settings

_SAYS = {
    What.COPIED: "This is a copy. What is open in it is the original's, and is not sent from here; new starts run.",
    What.RESTORED: "This is the original, put back. What was ordered before and has no record now is in doubt.",
    What.MOVED: "This is the original, elsewhere. Nothing was lost, and the old one never comes back.",
}


group: typer.Typer = typer.Typer(
    no_args_is_help=True, help="This database: declare what it is after a copy, a restore or a move."
)
cli.add_typer(group, name="database", rich_help_panel=MEND)


@group.callback()
def database() -> None:
    """Keeps `claim` a command of the group, though it is the only one."""


@group.command("claim", epilog="Example: perdure database claim --as copied")
def claim_database(
    what: Annotated[What, typer.Option("--as", help="a copy beside its original, the original put back, or moved")],
    yes: Annotated[bool, typer.Option("--yes", help="do not ask for confirmation")] = False,
) -> None:
    """Say what this database is, after it was copied, restored or moved: until then nothing is sent from it."""
    asyncio.run(_claim(what, yes))


async def _claim(what: What, yes: bool) -> None:
    config = settings()
    database = Database(config.database_url, most=2)
    pool = await database.open()
    try:
        exchange = Exchange(await connect(PerdurePlugin(App([], []), config)), config)
        async with pool.acquire() as connection:
            print_line(str(await look(connection)))
            print_line(_SAYS[what])
            if not yes:
                typer.confirm("Is it so?", abort=True)
            print_line(await claim(connection, exchange, what, print_line))
    finally:
        await database.close()
