"""`python -m bench.outbox`: what starting in the app's transaction costs (README.md, docs/costs.md); ten minutes."""

from __future__ import annotations

import asyncio
import statistics
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from bench.outbox import commits, deliveries, idling
from bench.outbox.commits import middle
from bench.outbox.rig import Rig, rig
from perdure._services.pace import BATCH

PARTS = ("commits", "notify", "idle", "starts", "soon", "backlog")


def main(
    part: Annotated[list[str], typer.Option(help=f"Only these: {', '.join(PARTS)}.")] = list(PARTS),  # noqa: B006
    rounds: Annotated[int, typer.Option(help="How often each way has its turn.", min=1)] = 5,
    seconds: Annotated[float, typer.Option(help="How long a turn takes where it takes a time.", min=1)] = 2,
    runs: Annotated[int, typer.Option(help="Lifecycles in one turn.", min=1)] = 400,
    backlog: Annotated[list[int], typer.Option(help="Rows that wait.")] = [10_000, 100_000, 1_000_000],  # noqa: B006
) -> None:
    """Measure side by side, alternating, and print the tables: medians over the rounds, with least and most."""
    asyncio.run(_measure(set(part), rounds, seconds, runs, backlog))


async def _measure(parts: set[str], rounds: int, seconds: float, runs: int, backlog: list[int]) -> None:
    console = Console(soft_wrap=True)
    if "commits" in parts:
        for durable in (True, False):
            console.print(await _commits(rounds, seconds, durable))
    if "notify" in parts:
        for clients, rate in ((8, 1000), (16, 1000), (16, None)):
            console.print(await _notify(rounds, seconds, clients, rate))
    if parts & {"idle", "starts", "soon", "backlog"}:
        async with rig() as here:
            if "idle" in parts:
                console.print(await _idle(here, 3 * seconds))
            if "starts" in parts:
                console.print(await _starts(here, rounds, runs))
            if "soon" in parts:
                console.print(await _soon(here, runs // 2))
            if "backlog" in parts:
                console.print(await _backlog(here, rounds, runs, backlog))


async def _commits(rounds: int, seconds: float, durable: bool) -> Table:
    kind = "syncs to disk" if durable else "does not sync"
    table = Table("way", "clients", "row alone, ms", "with its start, ms", "ratio", title=f"commits: PostgreSQL {kind}")
    for (way, clients), pairs in (await commits.starts(rounds, seconds, durable=durable)).items():
        bare, started = [pair[0].p50 for pair in pairs], [pair[1].p50 for pair in pairs]
        ratio = middle([b / a for a, b in zip(bare, started, strict=True)])
        table.add_row(way, str(clients), middle(bare), middle(started), ratio)
    return table


async def _notify(rounds: int, seconds: float, clients: int, rate: int | None) -> Table:
    title = f"NOTIFY: {clients} clients, " + ("as fast as they can" if rate is None else f"{rate} rows/s wanted")
    table = Table("NOTIFY", "rows/s", "p50 ms", "p99 ms", title=title)
    for way, found in (await commits.notifications(rounds, seconds, clients=clients, rate=rate)).items():
        figures = ([each.tps for each in found], [each.p50 for each in found], [each.p99 for each in found])
        table.add_row(way, *(middle(each) for each in figures))
    return table


async def _idle(here: Rig, seconds: float) -> Table:
    table = Table("looks every", "worker, % of a core", "PostgreSQL, % of a core", title="an idle worker")
    for every in (None, 0.2, 0.05, 0.025, 0.02):
        worker, database = await idling.idle(here, every, seconds)
        table.add_row("never" if every is None else f"{every} s", f"{worker:.1f}", f"{database:.1f}")
    return table


async def _starts(here: Rig, rounds: int, runs: int) -> Table:
    found = [(await deliveries.by_client(here, runs), await deliveries.by_relay(here, runs)) for _ in range(rounds)]
    table = Table("plain client, runs/s", "relay, runs/s", "ratio", title=f"{runs} runs to their end")
    client, relay = [each[0] for each in found], [each[1] for each in found]
    table.add_row(middle(client), middle(relay), middle([b / a for a, b in found]))
    return table


async def _soon(here: Rig, count: int) -> Table:
    taken = sorted(await deliveries.until_begun(here, count, 0.2))
    table = Table("p50 ms", "p99 ms", "most", title=f"commit to first workflow task, {count} one by one")
    table.add_row(f"{statistics.median(taken):.1f}", f"{taken[int(len(taken) * 0.99)]:.1f}", f"{taken[-1]:.1f}")
    return table


async def _backlog(here: Rig, rounds: int, runs: int, backlog: list[int]) -> Table:
    table = Table(
        *("", "rows/s", "against the plain client"),
        *("CPU s per 1,000: PostgreSQL", "Temporal", "client or relay"),
        title="starts that nobody runs, 50 at once",
    )
    plain = await deliveries.by_client_alone(here, rounds, runs)
    ways = {"a plain client": plain}
    for rows in sorted(backlog):
        await deliveries.fill(here, rows)
        ways[f"relay, {rows:,} rows wait"] = await deliveries.with_backlog(here, rounds, max(1, runs // BATCH))
    for name, found in ways.items():
        ratio = middle([each.per_s / other.per_s for each, other in zip(found, plain, strict=True)])
        cpu = [middle([getattr(each, part) for each in found]) for part in ("postgres", "temporal", "process")]
        table.add_row(name, middle([each.per_s for each in found]), ratio, *cpu)
    return table


if __name__ == "__main__":
    typer.run(main)
