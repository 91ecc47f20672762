"""`perdure database claim`: declares that a database is a copy, restored, or moved."""

from __future__ import annotations

import asyncio
from typing import Annotated

import typer

from perdure._services.ownership.claiming import What, claim, look
from perdure._services.ownership.exchange import Exchange
from perdure._store.schema.kinds import Kind
from perdure._worker.plugin import PerdurePlugin
from perdure._worker.worker import connect
from perdure.app import App
from perdure.cli.acting import confirm
from perdure.cli.cli import MEND, cli
from perdure.cli.database import opened
from perdure.cli.printing import print_line
from perdure.settings import settings

_MEANING = {
    What.COPIED: "This is a copy. Nothing is sent from here for its open entities, which belong to the original.",
    What.RESTORED: "This is the original, restored. An effect that was ordered before and has no record is in doubt.",
    What.MOVED: "This is the original, moved. Nothing was lost, and the old server never runs again.",
}


group: typer.Typer = typer.Typer(
    no_args_is_help=True, help="The identity of this database: declare it after a copy, a restore or a move."
)
cli.add_typer(group, name="database", rich_help_panel=MEND)


@group.callback()
def database() -> None:
    """Makes `claim` a command of this group, although the group has no other."""


@group.command("claim", epilog="Example: perdure database claim --as copied")
def claim_database(
    what: Annotated[
        What, typer.Option("--as", help="a copy beside its original, the original restored, or the original moved")
    ],
    yes: Annotated[bool, typer.Option("--yes", help="do not ask for confirmation")] = False,
) -> None:
    """Declare what this database is after it was copied, restored or moved. Until then, nothing is sent from it."""
    asyncio.run(_claim(what, yes))


async def _claim(what: What, yes: bool) -> None:
    config = settings()
    async with opened(Kind.WORKER) as pool:
        exchange = Exchange(await connect(PerdurePlugin(App([], []), config)), config)
        async with pool.acquire() as connection:
            print_line(str(await look(connection)))
            print_line(_MEANING[what])
            confirm("Is this right", yes, dry_run=False)
            print_line(await claim(connection, exchange, what, print_line))
