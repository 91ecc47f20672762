"""`python -m bench.cost`: measures all ways beside each other, reports, and ends with 1 if a gate is broken."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Annotated

import typer
from rich.progress import Progress

from bench.cost.figures import figures, gates, ratios, spread, targets
from bench.cost.measure import Plan, Round, measure
from bench.cost.report import Result, show, write
from bench.cost.rig import WAYS, Rig, rig
from bench.cost.slow import transactions_behind_slow_commits
from perdure import Settings


def main(
    rounds: Annotated[int, typer.Option(help="How often each way has its turn.")] = 7,
    runs: Annotated[int, typer.Option(help="Runs that are timed together, in each round.")] = 400,
    in_flight: Annotated[int, typer.Option(help="How many of them are open at once.")] = 200,
    trickle: Annotated[int, typer.Option(help="Starts at five a second, in each round and on either server.")] = 25,
    relay_poll_interval: Annotated[
        float, typer.Option(help="PERDURE_RELAY_POLL_INTERVAL of our workers, seconds.")
    ] = Settings.model_fields["relay_poll_interval"].default,
    folder: Annotated[Path, typer.Option(help="Where bench.json and bench.html go.")] = Path("build"),
) -> None:
    """Measure what a comment notification costs: Temporal's samples, ours as an activity and inline, and the floor."""
    settings = {"PERDURE_RELAY_POLL_INTERVAL": str(relay_poll_interval)}
    plan = Plan(rounds=rounds, runs=runs, in_flight=in_flight, trickle=trickle, settings=settings)
    result = asyncio.run(run(plan))
    write(result, folder)
    show(result)
    raise typer.Exit(0 if all(each.met for each in result.gates) else 1)


async def run(plan: Plan) -> Result:
    """Measure and judge."""
    async with rig(durable=plan.durable) as made:
        rounds = await _rounds(made, plan)
        slow = {way: await transactions_behind_slow_commits(made, way, plan) for way in ("activity", "inline")}
    ways = {way: figures(found) for way, found in rounds.items()}
    ratio = ratios(rounds)
    return Result(
        ways=ways,
        spread={way: spread(found) for way, found in rounds.items()},
        ratios=ratio,
        gates=gates(ways, slow),
        targets=targets(ratio),
        plan=plan,
    )


async def _rounds(made: Rig, plan: Plan) -> dict[str, list[Round]]:
    """All ways in turn, so that whatever else the machine does hits all alike."""
    found: dict[str, list[Round]] = {way: [] for way in WAYS}
    with Progress(transient=True) as progress:
        task = progress.add_task("measuring", total=plan.rounds * len(WAYS))
        for number in range(plan.rounds):
            for way in WAYS:
                progress.update(task, description=f"round {number + 1}: {way}")
                found[way].append(await measure(made, way, plan))
                progress.advance(task)
    return found


if __name__ == "__main__":
    typer.run(main)
