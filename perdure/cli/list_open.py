"""`perdure list`: open lifecycles, the longest in their state first; or finished ones, the newest first."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import asdict, replace
from datetime import datetime
from functools import partial
from typing import Annotated

import typer

from perdure._operations.condition import Condition
from perdure._operations.durations import duration, shown
from perdure._operations.finished import FinishedRow, FinishedSelection, count_finished, newest_finished
from perdure._operations.selection import Row, Selection, check, count, oldest
from perdure.app import App
from perdure.cli.app_option import AppOption, loaded
from perdure.cli.cli import LOOK, cli
from perdure.cli.database import reading
from perdure.cli.printing import MOST, moment, print_json, print_note, print_table, refuse, refuse_error
from perdure.cli.targets import instant
from perdure.cli.watching import Every, Watch, watch
from perdure.errors import InvalidSetting

Rows = Sequence[Row] | Sequence[FinishedRow]


@cli.command(
    "list", epilog="Example: perdure list --lifecycle order --older-than 10m --attention", rich_help_panel=LOOK
)
def list_open(
    lifecycle: Annotated[str | None, typer.Option(help="those of this lifecycle")] = None,
    state: Annotated[str | None, typer.Option(help="those in this state")] = None,
    condition: Annotated[
        Condition | None, typer.Option(help="those in this condition, as far as the database alone shows it")
    ] = None,
    older_than: Annotated[str | None, typer.Option(help="longer in their state than that: 90s, 10m, 2h, 3d")] = None,
    in_doubt: Annotated[bool, typer.Option("--in-doubt", help="those with an effect in doubt")] = False,
    attention: Annotated[bool, typer.Option("--attention", help="those that need a person")] = False,
    stuck: Annotated[bool, typer.Option("--stuck", help="those longer in their state than it allows")] = False,
    finding: Annotated[
        str | None, typer.Option(help="those about which a reconciliation left this finding, such as ended or stuck")
    ] = None,
    tenant: Annotated[str | None, typer.Option(help="those of this tenant")] = None,
    finished: Annotated[
        bool, typer.Option("--finished", help="finished ones in place of open ones, the newest first")
    ] = False,
    since: Annotated[
        str | None, typer.Option(help="finished then or later: 2026-07-01, 2026-07-01T12:00Z, or 2h = ago")
    ] = None,
    before: Annotated[str | None, typer.Option(help="finished before then")] = None,
    limit: Annotated[int, typer.Option(help="at most so many", min=1, max=MOST)] = 100,
    as_json: Annotated[bool, typer.Option("--json", help="one JSON object a line")] = False,
    watched: Watch = False,
    every: Every = 2.0,
    app: AppOption = None,
) -> None:
    """List open lifecycles, the longest in their state first; with --finished those that have ended.

    Exit status 1 if nothing matches, 2 if there is no such lifecycle or state.
    """
    finished = finished or condition is Condition.FINISHED
    if finished and (attention or stuck or finding or condition not in (None, Condition.FINISHED)):
        refuse("--attention, --stuck, --finding and --condition are of open ones: leave out --finished", 2)
    if not finished and (since or before):
        refuse("--since and --before are of finished ones: give --finished, too", 2)
    wanted: Selection | FinishedSelection
    try:
        if finished:
            until = _earlier(instant(before), instant(older_than))
            wanted = FinishedSelection(lifecycle, state, instant(since), until, tenant, in_doubt, limit)
        else:
            age = duration(older_than) if older_than is not None else None
            wanted = Selection(
                lifecycle, state, condition, age, in_doubt, attention, tenant, finding, limit, stuck=stuck
            )
        declared = loaded(app)
        if watched:
            watch(lambda: partial(_print, *asyncio.run(_read(wanted, declared)), False), every, as_json=as_json)
        rows, total = asyncio.run(_read(wanted, declared))
    except InvalidSetting as error:
        refuse_error(error)
    if not rows:
        kind = "finished" if finished else "open"
        refuse(f"nothing that is {kind} matches" if wanted.filters else f"nothing is {kind}", 1)
    _print(rows, total, as_json)


async def _read(wanted: Selection | FinishedSelection, app: App | None) -> tuple[Rows, int]:
    """The rows, and how many there are without the limit."""
    async with reading() as connection:
        if isinstance(wanted, FinishedSelection):
            await check(connection, Selection(lifecycle=wanted.lifecycle, state=wanted.state), app)
            ended = await newest_finished(connection, wanted)
            full = len(ended) == wanted.limit
            return ended, await count_finished(connection, replace(wanted, limit=None)) if full else len(ended)
        await check(connection, wanted, app)
        rows = await oldest(connection, wanted)
        full = len(rows) == wanted.limit
        return rows, await count(connection, replace(wanted, limit=None)) if full else len(rows)


def _print(rows: Rows, total: int, as_json: bool) -> None:
    if as_json:
        for row in rows:
            print_json({"condition": Condition.FINISHED, **asdict(row)})
        return
    cells = [_cells(row) for row in rows]
    if any(isinstance(row, FinishedRow) for row in rows):
        print_table(("entity", "generation", "state", "finished at"), cells)
    else:
        print_table(("entity", "generation", "state", "for", "condition", "attention"), cells, cut=("attention",))
    if total > len(rows):
        print_note(f"perdure: {len(rows)} of {total}; --limit shows more")


def _cells(row: Row | FinishedRow) -> tuple[object, ...]:
    name = f"{row.lifecycle}/{row.id}", row.generation, row.state
    if isinstance(row, FinishedRow):
        return *name, moment(row.finished_at)
    return *name, shown(row.age), row.condition.words, row.attention


def _earlier(one: datetime | None, other: datetime | None) -> datetime | None:
    return min((each for each in (one, other) if each is not None), default=None)
