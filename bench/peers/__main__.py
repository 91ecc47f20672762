"""`python -m bench.peers`: the same order in each tool, killed at the same places; `make bench-peers` calls it."""

from __future__ import annotations

import datetime
import tempfile
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from bench.keeping import keep, kept
from bench.marked import replaced
from bench.peers.report import Measured, as_json, cells, from_json, markdown
from bench.peers.rig import SCENARIOS, rig
from bench.peers.tools import ROOT, TOOLS, Tool

PAGE = ROOT / "docs" / "comparison.md"
RESULT = ROOT / "build" / "peers.json"

console = Console()


def main(
    tool: Annotated[
        list[str] | None,
        typer.Option(help="Measure this tool again, and keep the results of the others; may be repeated."),
    ] = None,
    orders: Annotated[int, typer.Option(help="Orders for each kill, at most 5: all must be under way at once.")] = 5,
    runs: Annotated[int, typer.Option(help="Orders whose CPU time is measured.")] = 300,
    write: Annotated[bool, typer.Option(help="Write the table into docs/comparison.md.")] = False,
) -> None:
    """Kill each tool's worker at the same places, and count the charges at the outside server. About 40 minutes."""
    found = from_json(kept(RESULT, again=bool(tool)))
    for each in TOOLS:
        if tool and each.name not in tool:
            continue
        if missing := each.missing():
            console.print(f"{each.name} is left out: {missing}", style="bold red")
            continue
        found[each.name] = _measure(each, orders, runs)
        keep(RESULT, as_json(found))
    found = {each.name: found[each.name] for each in TOOLS if each.name in found}
    rows = cells(found)
    table = Table(*rows[0])
    for row in rows[1:]:
        table.add_row(*row)
    console.print(table)
    if write:
        today = datetime.datetime.now(datetime.UTC).date()
        PAGE.write_text(replaced(PAGE.read_text(), "peers", markdown(found, orders, today)))


def _measure(tool: Tool, orders: int, runs: int) -> Measured:
    with tempfile.TemporaryDirectory(prefix="perdure-bench-") as folder, rig(tool, Path(folder)) as made:
        delay, cpu = made.delay(20), made.cost(runs)
        kills = {}
        for scenario in SCENARIOS:
            if scenario.place != "before-write" or tool.writes:
                console.print(f"{tool.name}: {scenario.side}, {scenario.place}")
                kills[scenario] = made.killed(scenario, orders)
        return Measured(tool.version(), tool.lines(), tool.needs, kills, cpu, delay)


if __name__ == "__main__":
    typer.run(main)
