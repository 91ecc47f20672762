"""`perdure forget`: erases what is on record of one finished entity, and what belongs to it."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Annotated

import asyncpg
import typer

from perdure._operations.connecting import check_binding, read_binding
from perdure._retention.erasure_plan import ErasurePlan, Rows
from perdure._retention.forgetting import Eraser, Forgotten
from perdure._services.ownership.exchange import Exchange
from perdure._store.one_database import check_same_database
from perdure._store.postgres import Database, answering
from perdure._store.schema import Connection
from perdure._worker.plugin import PerdurePlugin
from perdure._worker.worker import connect
from perdure.app import App
from perdure.cli.acting import confirm
from perdure.cli.app_option import AppOption, required
from perdure.cli.cli import MEND, cli
from perdure.cli.database import opened
from perdure.cli.printing import complain, print_line, print_note
from perdure.cli.who import By, request
from perdure.contracts.keys import Entity
from perdure.errors import NotNow
from perdure.settings import settings


@cli.command(epilog="Example: perdure forget order 42 --app shop:app --by ann", rich_help_panel=MEND)
def forget(
    lifecycle: Annotated[str, typer.Argument(help="name of the lifecycle")],
    entity_id: Annotated[str, typer.Argument(metavar="ID", help="the entity's id")],
    app: AppOption = None,
    by: By = "",
    yes: Annotated[bool, typer.Option("--yes", help="do not ask for confirmation")] = False,
) -> None:
    """Erase a finished entity with all that belongs to it: its record, its histories in Temporal, the rows of the app
    and the other entities that its lifecycle declares (`Erasure`). What can't be reached is named.

    That it finished stays on record, so it is not started again. Safe to run again. Exit status 1 where an archive
    could not be read, or the App lacks a lifecycle of an entity that was erased.
    """
    asyncio.run(_forget(required(app), Entity(lifecycle, entity_id), request(by).by, yes))


async def _forget(app: App, entity: Entity, by: str, yes: bool) -> None:
    config = settings()
    try:
        async with opened() as pool, _erasing() as apps:
            with answering():
                async with pool.acquire() as connection:
                    if config.erasure_database_url:
                        await check_same_database(connection, apps, "PERDURE_ERASURE_DATABASE_URL")
                    temporal_client = await connect(PerdurePlugin(App([], []), config))
                    # Else it would be gone here, and stay in the Temporal that has it; or the other way round.
                    binding = await read_binding(connection)
                    await check_binding(temporal_client, config, binding)
                    exchange = Exchange(temporal_client, config)
                    async with exchange.answering():
                        await exchange.check_holder(binding)
                    rows = Rows(apps, app)
                    eraser = Eraser(connection, rows, temporal_client, config.scope)
                    plan = await rows.erasure_plan(entity)
                    await eraser.check(plan.entities)
                    if not yes:
                        _ask(entity, plan)
                    gone = await eraser.erase(plan, by)
    except asyncpg.LockNotAvailableError as error:
        raise NotNow(f"another session holds {entity} ({error}): try again") from None
    _print(entity, plan, gone)
    if gone.unread or plan.unknown:
        raise typer.Exit(1)


@asynccontextmanager
async def _erasing() -> AsyncIterator[Connection]:
    """A session whose rights the triggers of the app's tables can borrow."""
    config = settings()
    database = Database(config.erasure_database_url or config.database_url, most=2)
    pool = await database.open()
    try:
        async with pool.acquire() as connection:
            yield connection
    finally:
        await database.close()


def _ask(entity: Entity, plan: ErasurePlan) -> None:
    for line in plan.elsewhere:
        print_note(f"not reached: {line}")
    confirm(f"Erase {entity}{_and_others(plan)} for good", False, dry_run=False)


def _and_others(plan: ErasurePlan) -> str:
    kinds = Counter(each.lifecycle for each in plan.entities[:-1])
    others = ", ".join(f"{count} of {lifecycle}" for lifecycle, count in sorted(kinds.items()))
    return f" and what belongs to it ({others})" if others else ""


def _print(entity: Entity, plan: ErasurePlan, gone: Forgotten) -> None:
    rows = ", ".join(f"{count} of {table}" for table, count in sorted(gone.rows.items()) if count)
    print_line(
        f"forgot {entity}{_and_others(plan)}: {rows or 'nothing more'} in the database, "
        f"{gone.runs} histories in Temporal"
    )
    for table, count in gone.app_rows.items():
        print_line(f"the app's rows: {count} of {table}")
    for path in gone.archives:
        print_line(f"in an archive, from which you have to erase it: {path}")
    for line in plan.elsewhere:
        print_line(f"not reached: {line}")
    print_line("not reached: logs, traces, backups and write-ahead logs of both databases (`perdure help archive`)")
    for each in gone.unread:
        complain(f"it may be in an archive: {each}")
    for lifecycle in plan.unknown:
        complain(f"the App has no lifecycle {lifecycle!r}, so what else belongs to those entities was not erased")
