"""`perdure archive`: months that are over: listed, exported to Parquet, dropped."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import date
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.filesize import decimal

from perdure._retention.dropping import Dropped, check_droppable, drop
from perdure._retention.exporting import export
from perdure._retention.months import Month, every_month, first_day, now, the_month
from perdure._retention.working import step, working
from perdure._store.schema import Connection
from perdure._store.sql import queries
from perdure.cli.acting import confirm
from perdure.cli.cli import MEND, cli
from perdure.cli.database import opened, transaction
from perdure.cli.printing import moment, print_json, print_line, print_table
from perdure.settings import settings

_query = queries(__name__)

_COUNTED = 1000
"""Open entities of a month are counted up to here; looking at all could take long."""


def _month(name: str) -> date:
    try:
        return first_day(name)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None


The = Annotated[date, typer.Argument(metavar="MONTH", parser=_month, help="of UTC, as 2026-01")]

group: typer.Typer = typer.Typer(
    no_args_is_help=True, help="Months that are over: list them, export them to Parquet, drop them."
)
cli.add_typer(group, name="archive", rich_help_panel=MEND)


@group.command("list", epilog="Example: perdure archive list --json")
def list_months(
    as_json: Annotated[bool, typer.Option("--json", help="one JSON object a line")] = False,
) -> None:
    """List the months up to this one: their rows (an estimate), what became of them, open entities that are in them."""
    seen = asyncio.run(_seen())
    if as_json:
        for each in seen:
            print_json(each)
    else:
        columns = ("month", "is", "finished", "transitions", "size", "exported", "open in it")
        print_table(columns, [_row(each) for each in seen])


@group.command("export", epilog="Example: perdure archive export 2026-01 --to /srv/archive")
def export_month(
    month: The,
    to: Annotated[Path | None, typer.Option(help="the folder; default: PERDURE_ARCHIVE_TO")] = None,
) -> None:
    """Write a month that is over to Parquet files, and read them back. Done again, it replaces them."""
    folder = to or (Path(given) if (given := settings().archive_to) else None)
    if folder is None:
        raise typer.BadParameter("give --to FOLDER, or set PERDURE_ARCHIVE_TO")
    asyncio.run(_export(month, folder))


@group.command("drop", epilog="Example: perdure archive drop 2026-01 --yes")
def drop_month(
    month: The,
    without_export: Annotated[
        bool, typer.Option("--without-export", help="also if it was not exported, or its files are not here")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", help="do not ask for confirmation")] = False,
) -> None:
    """Drop a month that is over from the database, for good. Safe to stop at any time, and to run again.

    Entities that finished in it stay finished; their effects, inputs and transitions go with it.
    """
    gone = asyncio.run(_drop(month, without_export, yes))
    print_line(f"dropped {gone.month}")
    if gone.carried:
        print_line(f"kept apart, since they are open: {_some([f'{name} ({rows})' for name, rows in gone.carried])}")
    if gone.doubts:
        print_line(f"in doubt still, so their effects stay (perdure resolve): {_some(gone.doubts)}")


async def _seen() -> list[dict[str, Any]]:
    async with transaction() as connection:
        at = await now(connection)
        months = [each for each in await every_month(connection) if each.begin <= at]
        return [await _facts(connection, each, each.over_at() <= at) for each in months]


async def _facts(connection: Connection, month: Month, is_over: bool) -> dict[str, Any]:
    return {
        "month": str(month),
        "state": _state(month, is_over),
        "finished": sum(table.rows for part, table in month.tables.items() if part == "finished"),
        "transitions": sum(table.rows for part, table in month.tables.items() if part == "transition"),
        "bytes": sum(table.bytes for table in month.tables.values()),
        "exported_at": month.exported_at,
        "files": [file.path for file in month.files],
        "open": await _open(connection, month) if is_over else None,
    }


def _state(month: Month, is_over: bool) -> str:
    if month.dropped_at is not None:
        return "dropped"
    if month.dropping_at is not None:
        return "half dropped"
    return "over" if is_over else "under way"


async def _open(connection: Connection, month: Month) -> int:
    """How many open entities have transitions in it: those are kept apart when it goes."""
    if "transition" not in month.tables:
        return 0
    sql = _query("month_open").format(transition=month.tables["transition"].name)
    return len(await connection.fetch(sql, _COUNTED))


def _row(each: dict[str, Any]) -> tuple[object, ...]:
    still = "" if each["open"] is None else f"{each['open']}{'+' * (each['open'] == _COUNTED)}"
    rows = (each["finished"], each["transitions"], decimal(each["bytes"]))
    return each["month"], each["state"], *rows, moment(each["exported_at"]), still


async def _export(first: date, folder: Path) -> None:
    async with _work() as connection:
        await export(connection, await the_month(connection, first), folder, print_line)


async def _drop(first: date, without_export: bool, yes: bool) -> Dropped:
    async with _work() as connection:
        month = await the_month(connection, first)
        await check_droppable(connection, month, settings().retention, without_export=without_export)
        for line in await _what_goes(connection, month):
            print_line(line)
        confirm(f"Drop {month} for good", yes, dry_run=False)
        return await drop(connection, month, print_line, without_export=without_export)


async def _what_goes(connection: Connection, month: Month) -> list[str]:
    size = decimal(sum(table.bytes for table in month.tables.values()))
    lines = [f"{month}: {sum(table.rows for table in month.tables.values())} rows (estimated), {size}"]
    lines += [f"exported: {path}" for path in await asyncio.to_thread(_paths, month)]
    async with step(connection):
        if still := await _open(connection, month):
            lines.append(f"{still} open entities are in it: what they did is kept apart")
    return lines


def _paths(month: Month) -> list[str]:
    return [file.path + ("" if Path(file.path).exists() else " (not here)") for file in month.files]


@asynccontextmanager
async def _work() -> AsyncIterator[Connection]:
    """A connection for long work, on a database whose schema fits."""
    async with opened(), working(settings().database_url) as connection:
        yield connection


def _some(names: Sequence[str], most: int = 20) -> str:
    more = len(names) - most
    return ", ".join(names[:most]) + (f" and {more} more" if more > 0 else "")
