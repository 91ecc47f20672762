"""`perdure import`: an existing table of work is brought in."""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.text import Text

from perdure._crypto import keyring
from perdure._reconcile.importing.doubts import Doubt
from perdure._reconcile.importing.existing_work import ExistingWork, InvalidSource, of_table
from perdure._reconcile.importing.rows import Import, Imported
from perdure._store.connecting import connect_for_long_work
from perdure._store.schema import Connection
from perdure._store.schema.kinds import Kind
from perdure._text.shown import one_line
from perdure._worker.worker import load_app
from perdure._workflow.lifecycle import Lifecycle
from perdure.app import name_of
from perdure.cli.cli import MEND, cli
from perdure.cli.database import opened
from perdure.cli.printing import print_line
from perdure.settings import settings

Query = Annotated[
    str | None,
    typer.Option(help="instead of a table: a query with columns id, status, input and maybe since, tenant"),
]


def _finite(rate: float) -> float:
    if not math.isfinite(rate):
        raise typer.BadParameter(f"{rate} is no number of rows: give 0 for no limit")
    return rate


@cli.command(
    "import",
    epilog="Example: perdure import shop.app:app order --waiting pending --processing sending",
    rich_help_panel=MEND,
)
def import_rows(
    app: Annotated[str, typer.Argument(help="the App, as package.module:name or package.module")],
    lifecycle: Annotated[str, typer.Argument(help="name of the lifecycle that is started for each row")],
    waiting: Annotated[
        list[str] | None, typer.Option(help="status of rows that are not begun; may be given often")
    ] = None,
    processing: Annotated[
        list[str] | None, typer.Option(help="status of rows that a job may have begun: their effect counts as in doubt")
    ] = None,
    table: Annotated[str | None, typer.Option(help="the table; default: the one that the lifecycle mirrors to")] = None,
    key: Annotated[
        str | None, typer.Option(help="its column with the entity id; default: as mirrored to, or id")
    ] = None,
    column: Annotated[str | None, typer.Option(help="its column with the status; default: the one mirrored to")] = None,
    given: Annotated[
        str | None, typer.Option("--input", help="SQL expression of the input, jsonb; default: the row t, to_jsonb(t)")
    ] = None,
    since: Annotated[str | None, typer.Option(help="column or SQL expression: when a job began the row")] = None,
    query: Query = None,
    effect: Annotated[
        list[str] | None,
        typer.Option(
            help="what a job may have done, as EFFECT or EFFECT/SUFFIX; may be given often; default: the only effect"
        ),
    ] = None,
    batch: Annotated[int, typer.Option(help="rows in one transaction", min=1, max=5000)] = 200,
    rate: Annotated[float, typer.Option(help="rows per second at most; 0 = no limit", min=0, callback=_finite)] = 500,
    priority: Annotated[int, typer.Option(help="of their starts, 1 (first) to 5", min=1, max=5)] = 5,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="try each row, and roll it back")] = False,
) -> None:
    """Start lifecycles for the rows of an existing table of work. Safe to stop at any time, and to run again.

    One line for each row that can't be imported as it is. Exit status 1 if there is one.
    """
    if query and (table or key or column or given or since):
        raise typer.BadParameter("--query reads all by itself: give it, or --table and its options")
    loaded = load_app(app).lifecycle(lifecycle)
    begun, free = tuple(processing or ()), tuple(waiting or ())
    if not begun + free or set(begun) & set(free):
        raise typer.BadParameter("give --waiting or --processing or both, each status to one of them")
    keyring.own()  # once, and not for each row: it may be unusable
    doubt = Doubt.of(loaded, begun, effect or ()) if begun else None

    async def found(db: Connection) -> ExistingWork:
        sql = query or await _of_table(db, loaded, table, key, column, given, since)
        return await ExistingWork.check(db, sql, name_of(loaded), free + begun)

    async def run() -> Imported:
        async with _connection() as db:
            work = await found(db)
            with _Display(await work.estimate(db)) as display:
                display.warn(work.warning)
                imported = await Import(
                    db, loaded, work, doubt, priority, batch, rate or None, display.refuse, display.progress, dry_run
                ).run()
                for status in await work.statuses_of_no_row(db):
                    display.warn(f"no row has the status {status!r}")
            return imported

    seen = asyncio.run(run())
    how = "would be started" if dry_run else "started"
    print_line(f"{seen.started} {how}, {seen.in_doubt} with their effects in doubt, {seen.bad} can't be imported")
    if seen.bad:
        raise typer.Exit(1)


async def _of_table(
    db: Connection,
    lifecycle: type[Lifecycle[Any, Any]],
    table: str | None,
    key: str | None,
    column: str | None,
    given: str | None,
    since: str | None,
) -> str:
    mirror = lifecycle.mirror
    if mirror is not None and table in (None, mirror.table):
        table, key, column = mirror.table, key or mirror.key, column or mirror.column
    if table is None or column is None:
        raise InvalidSource(f"{name_of(lifecycle)} mirrors to no such table: give --table and --column, or --query")
    return await of_table(db, table, key or "id", column, given, since)


@asynccontextmanager
async def _connection() -> AsyncIterator[Connection]:
    """One for a long job: no bounds for its statements."""
    url = settings().database_url
    async with opened(Kind.OPERATOR):
        db = await connect_for_long_work(url, "perdure import")
        try:
            yield db
        finally:
            await db.close(timeout=2)


class _Display:
    """A bar where somebody looks at it, and a line for each bad row."""

    def __init__(self, total: int) -> None:
        self._console = Console(stderr=True, soft_wrap=True)
        columns = (TextColumn("importing"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
        self._bar = Progress(*columns, console=self._console, transient=True, disable=not self._console.is_terminal)
        self._task = self._bar.add_task("importing", total=total)
        self._total = total

    def __enter__(self) -> _Display:
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()

    def warn(self, what: str | None) -> None:
        """Show in one line what a person has to know."""
        if what:
            self._console.print(Text(one_line(what)))

    def refuse(self, row_id: str, why: str) -> None:
        """Name a bad row."""
        self._console.print(Text(one_line(f"{row_id}: {why.splitlines()[0]}")))

    def progress(self, seen: Imported) -> None:
        """Show how far it is; the total was a guess."""
        self._bar.update(self._task, completed=seen.seen, total=max(self._total, seen.seen))
