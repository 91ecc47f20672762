"""`python -m bench.cost`: measures all ways beside each other, reports, and ends with 1 if a gate is broken."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import Progress

from bench.cost.measure import Plan, Round, measure
from bench.cost.report import show, write
from bench.cost.result import Result
from bench.cost.rig import SERVERS, Rig, rig
from bench.cost.slow import transactions_behind_slow_commits
from bench.cost.tables import markdown, markdown_of_all, replaced
from bench.cost.ways import ROOT, WAYS, present
from perdure import Settings

PAGES = {ROOT / "docs" / "costs.md": markdown, ROOT / "bench" / "cost" / "README.md": markdown_of_all}


def main(
    rounds: Annotated[int, typer.Option(help="How often each way has its turn, at most.")] = 7,
    minutes: Annotated[float, typer.Option(help="No round begins that would end later.")] = 11,
    runs: Annotated[int, typer.Option(help="Runs that are timed together, in each round, free and pinned.")] = 300,
    in_flight: Annotated[int, typer.Option(help="How many of them are open at once.")] = 200,
    trickle: Annotated[int, typer.Option(help="Starts at five a second, in each round.")] = 30,
    server: Annotated[list[str], typer.Option(help=f"Temporal: {', '.join(SERVERS)}.")] = list(SERVERS),  # noqa: B006
    relay_poll_interval: Annotated[
        float, typer.Option(help="PERDURE_RELAY_POLL_INTERVAL of our workers, seconds.")
    ] = Settings.model_fields["relay_poll_interval"].default,
    folder: Annotated[Path, typer.Option(help="Where bench.json and bench.html go.")] = Path("build"),
    write_pages: Annotated[
        bool, typer.Option("--write", help="Write the tables into docs/costs.md, and all into bench/cost/README.md.")
    ] = False,
) -> None:
    """Measure the cost of a comment notification: Temporal's sample, Perdure, an empty workflow, and DBOS."""
    settings = {"PERDURE_RELAY_POLL_INTERVAL": str(relay_poll_interval)}
    plan = Plan(rounds=rounds, minutes=minutes, runs=runs, in_flight=in_flight, trickle=trickle, settings=settings)
    if unknown := sorted(set(server) - set(SERVERS)):
        raise typer.BadParameter(f"{unknown[0]!r} is none of {', '.join(SERVERS)}", param_hint="--server")
    result = asyncio.run(run(plan, server))
    write(result, folder)
    show(result)
    if write_pages:
        for page, tables in PAGES.items():
            page.write_text(replaced(page.read_text(), tables(result)))
    raise typer.Exit(0 if all(each.met for each in result.gates) else 1)


async def run(plan: Plan, servers: list[str]) -> Result:
    """Measure and judge."""
    begun = time.monotonic()
    async with rig(durable=plan.durable, servers=servers) as made:
        ways = present()
        if left_out := [WAYS[way].title for way in WAYS if way not in ways]:
            Console().print(f"left out: {', '.join(left_out)}: build/peers-venv has no DBOS", style="bold red")
        slow = {way: await transactions_behind_slow_commits(made, way, servers[0], plan) for way in _OURS}
        return Result(await _rounds(made, plan, ways, begun), slow, plan)


_OURS = ("activity", "inline")


async def _rounds(made: Rig, plan: Plan, ways: list[str], begun: float) -> dict[str, dict[str, list[Round]]]:
    """Rounds until one more would take too long, or one fails: those before it count all the same."""
    found: dict[str, dict[str, list[Round]]] = {server: {way: [] for way in ways} for server in made.servers}
    longest = 0.0
    with Progress(transient=True) as progress:
        task = progress.add_task("measuring", total=None)
        for number in range(1, plan.rounds + 1):
            started = time.monotonic()
            if number > 1 and started + longest > begun + 60 * plan.minutes:
                break
            try:
                measured = await _round(made, plan, ways, lambda turn: progress.update(task, description=turn))
            except Exception as error:
                if number == 1:
                    raise
                progress.console.print(f"round {number} failed and does not count: {error}", style="bold red")
                break
            for (server, way), each in measured.items():
                found[server][way].append(each)
            longest = max(longest, time.monotonic() - started)
    return found


async def _round(made: Rig, plan: Plan, ways: list[str], note: Callable[[str], None]) -> dict[tuple[str, str], Round]:
    """All ways in turn, so that whatever else the machine does hits all alike."""
    servers = list(made.servers)
    found: dict[tuple[str, str], Round] = {}
    for way in ways:
        # Where no Temporal is asked, one turn is for the tables of all servers.
        for shown_on in [[each] for each in servers] if WAYS[way].temporal else [servers]:
            note(f"{WAYS[way].title}, {shown_on[0]}")
            measured = await measure(made, way, shown_on[0], plan)
            found |= {(server, way): measured for server in shown_on}
    return found


if __name__ == "__main__":
    typer.run(main)
