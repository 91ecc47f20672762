"""`perdure recover`: open lifecycles whose workflows are gone go on from their record."""

from __future__ import annotations

import asyncio
import sys
from typing import Annotated

import typer

from perdure._reconcile.recovery.recovery import Recovered, recover
from perdure._reconcile.recovery.temporal import rebind, why_lost
from perdure._services.ownership.exchange import Exchange
from perdure._store.postgres import Pool
from perdure._store.schema.kinds import Kind
from perdure._worker.plugin import PerdurePlugin
from perdure._worker.worker import connect
from perdure.app import App
from perdure.cli.acting import confirm
from perdure.cli.cli import MEND, cli
from perdure.cli.database import opened
from perdure.cli.printing import complain, print_line, print_note, print_progress
from perdure.cli.who import By, Note, request
from perdure.settings import Settings, settings

_LOST = (
    "This Temporal has none of what is open in this database: {why}. If the one that it worked with still runs "
    "somewhere, or comes back, both work on the same entities."
)


@cli.command(
    "recover", epilog="Example: perdure recover --by ann --note 'the cluster burnt down'", rich_help_panel=MEND
)
def recover_all(
    by: By = "",
    note: Note = "",
    put_back: Annotated[
        bool,
        typer.Option(
            "--put-back",
            help="Temporal was put back to an earlier point, so open workflows lack messages: terminate them, and let "
            "their lifecycles go on from their record as well",
        ),
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", help="do not ask for confirmation")] = False,
) -> None:
    """Let every open lifecycle that has no workflow in Temporal go on from its record in the app's database.

    After the loss of Temporal: with TEMPORAL_* naming the new one. While all is well it changes nothing. It may
    be stopped, and run again. With --put-back: stop the workers before Temporal is put back. Exit status 1 if a
    workflow is there, and closed, under an open lifecycle, or if another transaction holds one.
    """
    asked = request(by, note)
    seen = asyncio.run(_recover(settings(), asked.by, asked.note, put_back, yes))
    if sys.stderr.isatty():
        print_note("")
    print_line(
        f"{seen.open} open: {seen.running} run, {seen.started} start again from their record, "
        f"{seen.waiting} wait for delivery or were rejected, {seen.ended} have a workflow that is closed"
    )
    if seen.terminated:
        print_line(f"{seen.terminated} open workflows were terminated.")
    if seen.started:
        print_line("They start as soon as a worker runs: `perdure status` shows how many still wait.")
    if seen.held:
        complain(f"{seen.held} are held by other transactions, and were left out: run it again")
    if seen.ended:
        complain("for those that are closed: perdure reconcile --now")
    if seen.held or seen.ended:
        raise typer.Exit(1)


async def _recover(config: Settings, by: str, note: str, put_back: bool, yes: bool) -> Recovered:
    async with opened(Kind.WORKER) as pool:
        temporal_client = await connect(PerdurePlugin(App([], []), config))
        await _bind(pool, Exchange(temporal_client, config), put_back, yes)
        what = "Temporal was put back" if put_back else "no workflow in Temporal"
        why = f"recovered: {what}{': ' if note else ''}{note}"
        return await recover(pool, temporal_client, config.scope, by=by, why=why, put_back=put_back, report=_print)


async def _bind(pool: Pool, exchange: Exchange, put_back: bool, yes: bool) -> None:
    """Bind the database to a Temporal that is a new one, or that was put back and does not know the last mark."""
    async with pool.acquire() as connection:
        if (why := await why_lost(connection, exchange)) is not None:
            print_line(_LOST.format(why=why))
            confirm("Is that one lost for good", yes, dry_run=False)
        if put_back:
            confirm("Terminate all open workflows of this database", yes, dry_run=False)
        if why is not None or put_back:
            await rebind(connection, exchange, print_line, put_back=put_back)


def _print(seen: Recovered) -> None:
    if sys.stderr.isatty():
        print_progress(f"{seen.open} checked, {seen.started} start again")
