"""`perdure list`: open lifecycles, the longest in their state first."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import Annotated

import typer

from perdure.app import App
from perdure.command.app_option import AppOption, loaded
from perdure.command.cli import cli
from perdure.command.database import reading
from perdure.command.printing import print_json, print_table, refuse
from perdure.errors import InvalidSetting
from perdure.operating.condition import Condition
from perdure.operating.durations import duration, shown
from perdure.operating.selection import Row, Selection, check, count, oldest


@cli.command("list", epilog="Example: perdure list --lifecycle order --older-than 10m --attention")
def list_open(
    lifecycle: Annotated[str | None, typer.Option(help="those of this lifecycle")] = None,
    state: Annotated[str | None, typer.Option(help="those in this state")] = None,
    condition: Annotated[
        Condition | None, typer.Option(help="those in this condition, as the database alone can tell it")
    ] = None,
    older_than: Annotated[str | None, typer.Option(help="longer in their state than that: 90s, 10m, 2h, 3d")] = None,
    in_doubt: Annotated[bool, typer.Option("--in-doubt", help="those with an effect in doubt")] = False,
    attention: Annotated[bool, typer.Option("--attention", help="those that want a person")] = False,
    tenant: Annotated[str | None, typer.Option(help="those of this tenant")] = None,
    finding: Annotated[
        str | None, typer.Option(help="those about which a clean-up left this finding, such as ended or stuck")
    ] = None,
    limit: Annotated[int, typer.Option(help="at most so many", min=1)] = 100,
    as_json: Annotated[bool, typer.Option("--json", help="one JSON object a line")] = False,
    app: AppOption = None,
) -> None:
    """List open lifecycles, the longest in their state first.

    Exit status 1 if nothing matches, 2 if there is no such lifecycle or state.
    """
    if condition is Condition.FINISHED:
        refuse("list shows what is open: `perdure show LIFECYCLE ID` finds what is finished, too", 2)
    try:
        age = duration(older_than) if older_than else None
        wanted = Selection(lifecycle, state, condition, age, in_doubt, attention, tenant, finding, limit)
        rows, total = asyncio.run(_read(wanted, loaded(app)))
    except InvalidSetting as error:
        refuse(error, 2)
    if not rows:
        refuse("nothing that is open matches" if wanted.filters else "nothing is open", 1)
    _print(rows, total, as_json)


async def _read(wanted: Selection, app: App | None) -> tuple[list[Row], int]:
    async with reading() as connection:
        await check(connection, wanted, app)
        rows = await oldest(connection, wanted)
        full = len(rows) == wanted.limit
        return rows, await count(connection, replace(wanted, limit=None)) if full else len(rows)


def _print(rows: Sequence[Row], total: int, as_json: bool) -> None:
    if as_json:
        for row in rows:
            print_json(asdict(row))
        return
    columns = ("entity", "round", "state", "for", "condition", "attention")
    print_table(
        columns,
        [
            (f"{row.lifecycle}/{row.id}", row.round, row.state, shown(row.age), row.condition.words, row.attention)
            for row in rows
        ],
        cut=("attention",),
    )
    if total > len(rows):
        typer.echo(f"perdure: {len(rows)} of {total}; --limit shows more", err=True)
