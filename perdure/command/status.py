"""`perdure status`: how everything stands, at a glance."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from datetime import timedelta
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from perdure.command.cli import cli
from perdure.command.database import transaction
from perdure.queries import query


@cli.command(epilog="Example: perdure status --json")
def status(
    as_json: Annotated[bool, typer.Option("--json", help="one JSON object, for scripts")] = False,
) -> None:
    """Show open lifecycles by state, what wants a person, and what waits for delivery."""
    seen = asyncio.run(_read())
    if as_json:
        typer.echo(json.dumps(seen))
        return
    console = Console(soft_wrap=True)
    if seen["open"]:
        console.print(_open(seen["open"]))
    else:
        typer.echo("no open lifecycles")
    console.print(_outbox(seen["outbox"]))


async def _read() -> dict[str, Any]:
    async with transaction() as connection:
        rows = await connection.fetch(query("overview"))
        waiting = await connection.fetchrow(query("gauges_waiting"))
        rejected = await connection.fetchval("select count(*) from perdure.rejected")
    assert waiting is not None
    outbox = {"waiting": waiting["waiting"], "lag_seconds": waiting["lag"], "wanted_later": waiting["later"]}
    return {
        "open": [dict(row) for row in rows],
        "outbox": {**outbox, "rejected": rejected, "rows_behind": waiting["behind"]},
    }


def _open(rows: Sequence[dict[str, Any]]) -> Table:
    table = Table("lifecycle", "state", "open", "oldest", "stuck", "attention", title="open", title_justify="left")
    for row in rows:
        figures = (str(row["open"]), _age(row["oldest_seconds"]), str(row["stuck"]), str(row["attention"]))
        table.add_row(Text(row["lifecycle"]), Text(row["state"]), *figures)
    return table


def _outbox(found: dict[str, Any]) -> Table:
    columns = ("waiting", "oldest waits", "wanted later", "rejected", "app rows behind")
    table = Table(*columns, title="delivery", title_justify="left")
    numbers = (str(found[name]) for name in ("wanted_later", "rejected", "rows_behind"))
    table.add_row(str(found["waiting"]), _age(found["lag_seconds"]), *numbers)
    return table


def _age(seconds: float) -> str:
    return f"{seconds:.1f} s" if seconds < 60 else str(timedelta(seconds=round(seconds)))
