"""`perdure top`: a live view of what is open, how fast it moves, and what needs a person."""

from __future__ import annotations

import asyncio
import logging
import sys
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any

import typer
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from perdure._operations.connecting import bound, read_binding, temporal_client
from perdure._operations.durations import shown
from perdure._operations.overview import read_flow, read_overview, read_queues
from perdure._operations.selection import Row, Selection, oldest
from perdure._text.shown import one_line
from perdure.app import App
from perdure.cli.app_option import AppOption, loaded
from perdure.cli.cli import LOOK, cli
from perdure.cli.database import reading
from perdure.cli.keys import Keys
from perdure.cli.printing import refuse
from perdure.errors import PerdureError
from perdure.settings import settings

ORDERS = ("attention", "open", "oldest", "name")
"""What `s` sorts lifecycles by, one after the other."""
_MOST = 200
_KEYS = "qs"
_COLUMNS = ("open", "held", "waits", "not picked up", "holder gone", "stuck", "attention", "in doubt")


@dataclass(frozen=True, slots=True)
class Reading:
    """How everything stood at one moment."""

    overview: Mapping[str, Any]
    flow: Mapping[str, Any]
    persons: list[Row]
    queues: list[dict[str, Any]]


@cli.command(epilog="Example: perdure top --every 5", rich_help_panel=LOOK)
def top(
    every: Annotated[float, typer.Option(help="seconds between two readings", min=0.1)] = 2.0,
    app: AppOption = None,
) -> None:
    """Show live what is open, how fast it moves, and what needs a person. Keys: q ends, s sorts otherwise.

    It costs each reading what `perdure status` costs. With --app also the task queues of effects.
    """
    console = Console()
    if not (console.is_terminal and sys.stdin.isatty()):
        refuse("perdure top is for a terminal, and for a person: perdure status --json is for scripts", 2)
    declared = loaded(app)
    logging.disable(logging.WARNING)  # a line of the log would stand amid the screen, which has the reason anyway
    _show(console, every, declared)


def _show(console: Console, every: float, app: App | None) -> None:
    order, before, seen, why = 0, None, None, ""
    with Keys() as keys, Live(console=console, screen=True, auto_refresh=False, vertical_overflow="crop") as live:
        while True:
            try:
                before, seen, why = seen, asyncio.run(_read(app)), ""
            except PerdureError as error:
                why = one_line(error)
            key: str | None = _KEYS[1]
            while key == _KEYS[1]:
                live.update(_screen(seen, before, ORDERS[order], why, console), refresh=True)
                key = keys.wait(every, _KEYS)
                order = (order + (key == _KEYS[1])) % len(ORDERS)
            if key == _KEYS[0]:
                return


async def _read(app: App | None) -> Reading:
    config = settings()
    asking = asyncio.create_task(temporal_client(config, app))
    try:
        async with reading() as connection:
            overview = await read_overview(connection)
            flow = await read_flow(connection)
            binding = await read_binding(connection)
            persons = await oldest(connection, Selection(attention=True, limit=_MOST))
        client = await bound(await asking, config, binding)
        return Reading(overview, flow, persons, await read_queues(client, app, config))
    finally:
        asking.cancel()


def _screen(seen: Reading | None, before: Reading | None, order: str, why: str, console: Console) -> RenderableType:
    keys = Text(f"q ends, s sorts by another column (now: {order})", style="dim")
    if seen is None:
        return Group(keys, Text(f"perdure: {why}", style="bold red"))
    head = _head(seen, before)
    lines = [Text(f"perdure: {why}; what was read last is shown", style="bold red")] if why else []
    lifecycles = _lifecycles(seen.overview, order)
    room = console.height - lifecycles.row_count - len(lines) - 10
    return Group(keys, head, *lines, lifecycles, _persons(seen.persons, max(room, 3)))


def _head(seen: Reading, before: Reading | None) -> Text:
    outbox, flow = seen.overview["outbox"], seen.flow
    at: datetime = flow["at"]
    text = Text(f"{at.astimezone():%H:%M:%S}  ")
    if before is not None and (took := (at - before.flow["at"]).total_seconds()) > 0:
        rates = {name: (flow[name] - before.flow[name]) / took for name in ("started", "ended", "effects")}
        text.append("  ".join(f"{name} {rate:.1f}/s" for name, rate in rates.items()) + "  ")
    lag, style = shown(outbox["lag_seconds"]), "bold red" if outbox["lag_seconds"] > 60 else ""
    text.append(f"outbox {outbox['waiting']} ({lag or '0 s'})  ", style=style)
    text.append(f"rejected {outbox['rejected']}  ", style="bold red" if outbox["rejected"] else "")
    if error := next((each["error"] for each in seen.queues if each["error"]), None):
        text.append(f"Temporal: {one_line(error)}", style="bold red")
    else:
        pollers = {name for each in seen.queues for name in each["pollers"]}
        text.append(f"workers {len(pollers)}", style="" if pollers else "bold red")
        text.append(f"  tasks waiting {sum(each['backlog'] for each in seen.queues)}")
    return text


def _lifecycles(overview: Mapping[str, Any], order: str) -> Table:
    counts: dict[str, Counter[str]] = {}
    ages: Counter[str] = Counter()
    for row in overview["open"]:
        found = counts.setdefault(row["lifecycle"], Counter())
        for name in _COLUMNS[:-1]:
            found[name] += row[name.replace(" ", "_")]
        ages[row["lifecycle"]] = max(ages[row["lifecycle"]], row["oldest_seconds"])
    for row in overview["in_doubt"]:
        counts.setdefault(row["lifecycle"], Counter())["in doubt"] += row["in_doubt"]
    table = Table("lifecycle", *_COLUMNS, "oldest", expand=True, box=None)
    most = {"name": Counter[str](), "oldest": ages}.get(order)
    for name in sorted(counts, key=lambda each: (-(counts[each][order] if most is None else most[each]), each)):
        style = "red" if counts[name]["attention"] else ""
        cells = [str(counts[name][each] or "-") for each in _COLUMNS]
        table.add_row(one_line(name), *cells, shown(ages[name]), style=style)
    if not counts:
        table.add_row("nothing is open")
    return table


def _persons(rows: list[Row], room: int) -> Table:
    table = Table("needs a person", "state", "for", "why", expand=True, box=None)
    table.columns[-1].no_wrap = True
    table.columns[-1].overflow = "ellipsis"
    table.columns[-1].ratio = 1
    for row in rows[:room]:
        name = one_line(f"{row.lifecycle}/{row.id}")
        table.add_row(Text(name), Text(one_line(row.state)), shown(row.age), Text(one_line(row.attention or "")))
    if len(rows) > room:
        more = f"{len(rows) - room}{' or more' if len(rows) == _MOST else ''}"
        table.add_row(f"and {more}: perdure list --attention")
    elif not rows:
        table.add_row("nothing does")
    return table
