"""What a turn of the watch costs with so many open entities, when it finds nothing.

Run it as `python -m bench.watch [--entities 1000 --entities 20000] [--turns 10]`.
"""

from __future__ import annotations

import asyncio
import time
from typing import Annotated, NamedTuple

import asyncpg
import psutil
import temporalio.client
import typer
from rich.console import Console
from rich.table import Table

from bench.polling import eventually
from bench.reconcile import COMMENT
from bench.waiting import app
from perdure import PerdurePlugin, Settings
from perdure._reconcile import watch
from perdure._store import schema
from perdure._store.connecting import open_pool
from perdure._worker.worker import new_worker
from perdure.servers.postgres import PostgresServer
from perdure.servers.temporal import TemporalServer

_SETTLED = """
    select (select count(*) from perdure.outbox) = 0
        and (select count(*) from perdure.entity where state = 'waiting') = $1
"""
_AGED = "update perdure.watch set looked_at = null"
_OLD = """
    update perdure.entity set created_at = created_at - interval '1 hour';
    update perdure.ident set version = version - 3600000000;
    vacuum analyze perdure.entity;
"""


class Cost(NamedTuple):
    """Of one turn: entities that were compared, seconds that it took, seconds of CPU of each process."""

    compared: float
    seconds: float
    worker: float
    postgres: float
    temporal: float


def main(
    entities: Annotated[list[int], typer.Option(help="How many are open.", min=1)] = [1000, 20_000],  # noqa: B006
    turns: Annotated[int, typer.Option(help="How many turns are measured.", min=1)] = 10,
) -> None:
    """Measure, and print the table."""
    table = Table("open", *Cost._fields, title=f"one turn of the watch, each {watch.EVERY:g} s (mean of {turns})")
    for count in entities:
        with PostgresServer() as postgres, TemporalServer() as temporal:
            cost = asyncio.run(measure(postgres, temporal, count, turns))
        table.add_row(f"{count:,}", f"{cost.compared:,.0f}", *(f"{each:.3f}" for each in cost[1:]))
    Console().print(table)


async def measure(postgres: PostgresServer, temporal: TemporalServer, entities: int, turns: int) -> Cost:
    """Let so many wait, take one turn that fills caches, and measure those after it."""
    config = Settings(database_url=postgres.dsn(), scope="watched", reconciliation_every=0)
    db = await asyncpg.connect(config.database_url)
    await schema.migrate(db)
    client = await temporalio.client.Client.connect(temporal.address, plugins=[PerdurePlugin(app, config)])
    async with new_worker(client, config):
        start = "select perdure.start('waiting', n::text, $1::jsonb) from generate_series(1, $2) n"
        await db.execute(start, COMMENT, entities)
        await eventually(lambda: db.fetchval(_SETTLED, entities), "all wait", patience=1800, every=0.1)
        for statement in _OLD.split(";\n")[:-1]:
            await db.execute(statement)
        pool = await open_pool(config.database_url, 2)
        looks = watch.Watch(pool, client, app, config, None)
        await looks.once()
        before, began, compared = _used(postgres, temporal), time.monotonic(), 0
        for _ in range(turns):
            await db.execute(_AGED)
            place = await _place(db)
            await looks.once()
            compared += (await _place(db) - place) % entities or entities
        took = time.monotonic() - began
        used = [(after - first) / turns for first, after in zip(before, _used(postgres, temporal), strict=True)]
        await pool.close()
    await db.close()
    return Cost(compared / turns, took / turns, *used)


async def _place(db: asyncpg.Connection[asyncpg.Record]) -> int:
    """How many entities lie before the place that the watch has come to."""
    counted = "select count(*) from perdure.entity e, perdure.watch w where (e.lifecycle, e.id) <= (w.lifecycle, w.id)"
    return int(await db.fetchval(counted))


def _used(postgres: PostgresServer, temporal: TemporalServer) -> tuple[float, float, float]:
    """Seconds of CPU so far of this process, PostgreSQL and Temporal."""
    of_postgres = [psutil.Process(postgres.pid), *psutil.Process(postgres.pid).children()]
    return _cpu(psutil.Process()), sum(map(_cpu, of_postgres)), _cpu(psutil.Process(temporal.pid))


def _cpu(process: psutil.Process) -> float:
    times = process.cpu_times()
    return float(times.user + times.system)


if __name__ == "__main__":
    typer.run(main)
