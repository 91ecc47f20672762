"""`python -m bench.day2`: does what an operator does on the days after the first, under load; `make bench-days`."""

from __future__ import annotations

import asyncio
import datetime
import subprocess
import tempfile
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from bench.day2.drills import SMALL, Drill, drills
from bench.day2.operator import Operator
from bench.failover.judge import Judged
from bench.failover.load import Load, under_load
from bench.failover.rig import rig
from bench.keeping import keep, kept
from bench.marked import replaced
from bench.up.place import enter

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "day-2.md"
RESULT = ROOT / "build" / "day-2.json"
HEADING = ("what is done", "pause", "orders", "uncharged", "twice", "lost with the dump", "what the operator sees")
UNDER_WAY = 2
"""Calls whose reply is held when it begins."""

console = Console()


@dataclass(frozen=True, slots=True)
class Done:
    """Figures of one drill."""

    judged: Judged
    saw: list[str]


def main(
    only: Annotated[
        list[str] | None, typer.Option(help="Do this again, and keep the results of the others; may be repeated.")
    ] = None,
    pace: Annotated[float, typer.Option(help="Orders a second.", min=0.1)] = 10.0,
    before: Annotated[int, typer.Option(help="Orders before.", min=1)] = 60,
    after: Annotated[int, typer.Option(help="Orders afterwards.", min=1)] = 100,
    write: Annotated[bool, typer.Option(help="Write the table into docs/day-2.md.")] = False,
) -> None:
    """Do each once under load, and judge it by the outside server's record and the rows."""
    known = {each.name: each for each in drills()}
    if unknown := [each for each in only or () if each not in known]:
        raise typer.BadParameter(f"{unknown[0]!r} is none of: {', '.join(known)}", param_hint="--only")
    if any(known[name].small_disk for name in only or known):
        enter("unshare", "mount")
    found = _earlier(kept(RESULT, again=bool(only)))
    for name in only or known:
        console.print(known[name].what)
        found[name] = asyncio.run(_done(known[name], pace, before, after))
        console.print(found[name])
        keep(RESULT, {name: asdict(each) for name, each in found.items()})
    lines = [_cells(known[name], found[name]) for name in known if name in found]
    table = Table(*HEADING)
    for line in lines:
        table.add_row(*line)
    console.print(table)
    if write:
        today = datetime.datetime.now(datetime.UTC).date()
        PAGE.write_text(replaced(PAGE.read_text(), "day-2", _markdown(lines, today)))


def _earlier(content: Mapping[str, Any]) -> dict[str, Done]:
    """The results in the content of the file."""
    return {name: Done(Judged(**each["judged"]), each["saw"]) for name, each in content.items()}


async def _done(drill: Drill, pace: float, before: int, after: int) -> Done:
    with tempfile.TemporaryDirectory(prefix="perdure-bench-", ignore_cleanup_errors=True) as folder:
        if drill.small_disk:  # its mount ends with this process
            disk = Path(folder) / "primary"
            disk.mkdir()
            mount = ("mount", "-t", "tmpfs", "-o", f"size={SMALL}", "tmpfs", str(disk))
            await asyncio.to_thread(subprocess.run, mount, check=True)
        async with rig(Path(folder)) as made:
            operator = Operator(made)
            await drill.arrange(operator)
            load = Load(made.dsn(), pace)
            async with under_load(load):
                await load.have_committed(before)
                await made.hold_calls(UNDER_WAY)
                made.side.hold(None)
                at = await drill.happen(operator)
                await load.have_committed(after)
            return Done(await made.judged(load, at), operator.saw)


def _cells(drill: Drill, found: Done) -> list[str]:
    judged = found.judged
    lost = f"{judged.rows_lost}, {judged.charged_without_row} of them charged" if judged.rows_lost else "0"
    counts = (judged.orders, judged.uncharged, judged.twice)
    return [drill.what, f"{judged.pause:.1f} s", *map(str, counts), lost, "; ".join(found.saw)]


def _markdown(lines: list[list[str]], day: datetime.date) -> str:
    rows = [list(HEADING), ["---"] * len(HEADING), *lines]
    table = "".join(f"| {' | '.join(row)} |\n" for row in rows)
    return f"{table}\nMeasured on {day.isoformat()} by `make bench-days`, on two cores that other programs used, too.\n"


if __name__ == "__main__":
    typer.run(main)
