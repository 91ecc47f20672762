"""What the search attributes cost: CPU of server, PostgreSQL and worker for 1,000 runs with three changes of state.

Run it as `python -m bench.indexed [--runs 500] [--rounds 3]`.
"""

from __future__ import annotations

import asyncio
import statistics
from enum import StrEnum
from functools import partial
from typing import Annotated, Any, Literal

import asyncpg
import psutil
import temporalio.client
import temporalio.service
import typer
from rich.console import Console
from rich.table import Table
from temporalio import workflow

from bench.cost.rig import cpu_of
from bench.polling import eventually
from perdure import App, Lifecycle, PerdurePlugin, Settings, state
from perdure._services.indexing import Indexing
from perdure._store import schema
from perdure._worker.worker import new_worker
from perdure.servers.postgres import PostgresServer
from perdure.servers.temporal import TemporalServer

WAYS: tuple[Literal["none", "attention", "state"], ...] = ("none", "attention", "state")


class Stage(StrEnum):
    """Where it is."""

    ORDERED = "ordered"
    PACKED = "packed"
    SENT = "sent"
    RECEIVED = state("received", final=True)


@workflow.defn(name="parcel", sandboxed=False)
class Parcel(Lifecycle[str, Stage]):
    """Goes through its states."""

    @workflow.run
    async def run(self, given: str) -> None:
        """Enter each."""
        for stage in (Stage.PACKED, Stage.SENT, Stage.RECEIVED):
            await self.enter(stage)


app = App(lifecycles=[Parcel])


def main(
    runs: Annotated[int, typer.Option(help="Runs that are measured together.", min=1)] = 500,
    rounds: Annotated[int, typer.Option(help="How often each setting has its turn.", min=1)] = 6,
) -> None:
    """Measure, and print the table."""
    with PostgresServer() as postgres, TemporalServer() as temporal:
        found = asyncio.run(measure(postgres, temporal, runs, rounds))
    title = f"CPU seconds per 1,000 runs (median of {rounds} rounds of {runs})"
    table = Table("PERDURE_SEARCH_ATTRIBUTES", "Temporal", "PostgreSQL", "worker", "events of a run", title=title)
    for way in WAYS:
        middle = [statistics.median(each) for each in zip(*found[way], strict=True)]
        table.add_row(way, *(f"{each:.2f}" for each in middle[:3]), f"{middle[3]:g}")
    Console().print(table)


async def measure(
    postgres: PostgresServer, temporal: TemporalServer, runs: int, rounds: int
) -> dict[str, list[tuple[float, ...]]]:
    """Each setting in turn; a round that warms up is left out."""
    db = await asyncpg.connect(postgres.dsn())
    await schema.migrate(db)
    found: dict[str, list[tuple[float, ...]]] = {way: [] for way in WAYS}
    for number in range(rounds + 1):
        at = number % len(WAYS)
        for way in (*WAYS[at:], *WAYS[:at]):
            ids = f"{way}-{number}"
            config = Settings(database_url=postgres.dsn(), reconciliation_every=0, search_attributes=way)
            plugin = PerdurePlugin(app, config)
            client = await temporalio.client.Client.connect(temporal.address, plugins=[plugin])
            await _registered(client, config)
            async with new_worker(client, config):
                before = _used(postgres, temporal)
                start = "select perdure.start('parcel', $1 || n, '\"x\"') from generate_series(1, $2) n"
                await db.execute(start, ids, runs)
                over = "select count(*) >= $2 from perdure.finished where id like $1 || '%'"
                await eventually(partial(db.fetchval, over, ids, runs), "all parcels have ended")
                used = [(after - first) / runs * 1000 for first, after in zip(before, _used(postgres, temporal))]  # noqa: B905
            history = await client.get_workflow_handle(f"parcel/{ids}1").fetch_history()
            if number:
                found[way].append((*used, float(len(history.events))))
    await db.close()
    return found


async def _registered(client: temporalio.client.Client, config: Settings) -> None:
    indexing = Indexing(client, config)
    while config.search_attributes != "none" and not indexing.known:
        try:
            await indexing.once()
        except temporalio.service.RPCError:
            await asyncio.sleep(0.2)


def _used(postgres: PostgresServer, temporal: TemporalServer) -> tuple[float, float, float]:
    family = [postgres.pid, *(each.pid for each in psutil.Process(postgres.pid).children())]
    own: Any = psutil.Process().cpu_times()
    return cpu_of(temporal.pid), sum(map(cpu_of, family)), own.user + own.system


if __name__ == "__main__":
    typer.run(main)
