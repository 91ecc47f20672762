"""`python -m bench.failover`: seconds until orders go on after each fault, and what is lost; `make bench-failover`."""

from __future__ import annotations

import asyncio
import datetime
import tempfile
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from bench.failover.faults import Fault, faults
from bench.failover.judge import Judged
from bench.failover.load import Load, under_load
from bench.failover.lost import Recovery, lose_temporal
from bench.failover.report import HEADING, cells, markdown, sentence
from bench.failover.rig import rig
from bench.keeping import keep, kept
from bench.marked import replaced

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "recovery.md"
LOST = "temporal-lost"
UNDER_WAY = 4
"""Calls whose reply is held when the fault happens."""
RESULT = ROOT / "build" / "failover.json"

console = Console()


def main(
    only: Annotated[
        list[str] | None,
        typer.Option(help="Measure this fault again, and keep the results of the others; may be repeated."),
    ] = None,
    pace: Annotated[float, typer.Option(help="Orders a second.", min=0.1)] = 20.0,
    before: Annotated[int, typer.Option(help="Orders before the fault.", min=1)] = 100,
    after: Annotated[int, typer.Option(help="Orders after it.", min=1)] = 400,
    lifecycles: Annotated[int, typer.Option("--open", help="Open lifecycles when Temporal is lost.", min=1)] = 10_000,
    write: Annotated[bool, typer.Option(help="Write the table into docs/recovery.md.")] = False,
) -> None:
    """Cause each fault once under load, and judge it by the outside server's record and the rows."""
    known = {each.name: each for each in faults()}
    names = [*known, LOST]
    chosen = only or names
    if unknown := [each for each in chosen if each not in names]:
        raise typer.BadParameter(f"{unknown[0]!r} is none of: {', '.join(names)}", param_hint="--only")
    found = _measured(kept(RESULT, again=bool(only)))
    for name in chosen:
        console.print(known[name].what if name in known else f"Temporal loses {lifecycles:,} open lifecycles")
        found[name] = asyncio.run(_caused(known[name], pace, before, after) if name in known else _lost(lifecycles))
        keep(RESULT, {name: asdict(each) for name, each in found.items()})
    judged = {name: each for name in known if isinstance(each := found.get(name), Judged)}
    recovery = each if isinstance(each := found.get(LOST), Recovery) else None
    _show(judged, recovery)
    if write:
        today = datetime.datetime.now(datetime.UTC).date()
        PAGE.write_text(replaced(PAGE.read_text(), "failover", markdown(known, judged, recovery, today)))


def _measured(content: Mapping[str, Any]) -> dict[str, Judged | Recovery]:
    """The results in the content of the file."""
    return {name: Recovery(**each) if name == LOST else Judged(**each) for name, each in content.items()}


async def _caused(fault: Fault, pace: float, before: int, after: int) -> Judged | Recovery:
    with tempfile.TemporaryDirectory(prefix="perdure-bench-") as folder:
        async with rig(Path(folder), fault.temporal_settings) as made:
            await fault.arrange(made)
            load = Load(made.dsn(), pace)
            async with under_load(load):
                await load.have_committed(before)
                await made.hold_calls(UNDER_WAY)
                at = await fault.happen(made)
                made.side.hold(None)
                await load.have_committed(after)
            return await made.judged(load, at)


async def _lost(lifecycles: int) -> Judged | Recovery:
    with tempfile.TemporaryDirectory(prefix="perdure-bench-") as folder:
        async with rig(Path(folder)) as made:
            return await lose_temporal(made, lifecycles)


def _show(judged: dict[str, Judged], recovery: Recovery | None) -> None:
    table = Table(*HEADING)
    known = {each.name: each for each in faults()}
    for name, found in judged.items():
        table.add_row(*cells(known[name].what, found))
    console.print(table)
    console.print(
        "new orders: seconds until an order that was committed after the fault is charged; pause: the longest time "
        "without a charge; earlier orders: seconds until all that were committed before the fault have ended",
        style="dim",
    )
    if recovery is not None:
        console.print(sentence(recovery))


if __name__ == "__main__":
    typer.run(main)
