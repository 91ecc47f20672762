"""A reconciliation that finds nothing, with 1,000 open entities beside 10^4, 10^6 (and 10^7) finished ones.

Run it as `python -m bench.reconcile [--rows 10000 --rows 1000000] [--rounds 9]`. The entities of the past are made by
SQL; ten million take some minutes and some 10 GB. Ends with 1 if the most take 1.2 times as long as the fewest.
"""

from __future__ import annotations

import asyncio
import statistics
import time
from dataclasses import dataclass
from typing import Annotated

import asyncpg
import temporalio.client
import typer
from rich.console import Console
from rich.table import Table

from bench.polling import eventually
from bench.waiting import Waiting, app
from perdure import PerdurePlugin, Settings
from perdure._reconcile.context import Context
from perdure._reconcile.findings import Findings
from perdure._reconcile.parts import PARTS
from perdure._store import schema
from perdure._store.connecting import open_pool
from perdure._worker.worker import new_identity, new_worker
from perdure.contracts import AppRows
from perdure.servers.postgres import PostgresServer
from perdure.servers.temporal import TemporalServer

GATE = 1.2
COMMENT = '{"id": 1, "post_id": 1, "author": "Ann", "body": "Well said.", "recipient": "bob@example.org"}'
EXPECTED = AppRows("select id, to_jsonb(j) as input from job j where state = 'pending'")

_APP = """
    create table job (id bigint primary key, state text not null);
    create index job_pending on job (id) where state = 'pending';
"""
_PAST = f"""
    insert into job select n, 'over' from generate_series(1, COUNT) n;
    insert into perdure.ident (lifecycle, id, version, final)
        select 'waiting', 'old-' || n, n, 'over' from generate_series(1, COUNT) n;
    insert into perdure.finished (lifecycle, id, generation, state, input, workflow_id, created_at)
        select 'waiting', 'old-' || n, 0, 'over', '{COMMENT}', 'waiting/old-' || n, clock_timestamp()
        from generate_series(1, COUNT) n;
    insert into perdure.transition (lifecycle, id, generation, version, state)
        select 'waiting', 'old-' || n, 0, n, 'over' from generate_series(1, COUNT) n;
    insert into perdure.effect
        (key, lifecycle, id, generation, effect, token, status, digest, first_at, attempt_at, deadline)
        select 'waiting/old-' || n || '/tell', 'waiting', 'old-' || n, 0, 'tell', 't', 'done', 'd', now(), now(), now()
        from generate_series(1, COUNT) n;
"""
_SETTLED = """
    select (select count(*) from perdure.outbox) = 0
        and (select count(*) from perdure.entity where state = 'waiting') = $1
"""


@dataclass
class Past:
    """A database with so many entities that have finished."""

    count: int
    config: Settings
    temporal_client: temporalio.client.Client

    async def fill(self, entities: int) -> None:
        """Make the past by SQL, and let `entities` begin that wait."""
        db = await asyncpg.connect(self.config.database_url)
        await schema.migrate(db)
        await db.execute(_APP)
        await db.execute(_PAST.replace("COUNT", str(self.count)), timeout=7200)
        await db.execute("vacuum analyze", timeout=7200)
        async with new_worker(self.temporal_client, self.config):
            start = "select perdure.start('waiting', n::text, $1::jsonb) from generate_series(1, $2) n"
            await db.execute(start, COMMENT, entities)
            await eventually(lambda: db.fetchval(_SETTLED, entities), "all wait", every=0.1)
        await db.execute("vacuum analyze", timeout=7200)
        await db.execute("checkpoint")
        await db.close()

    async def reconcile(self) -> tuple[float, int]:
        """Seconds that all its parts took, and how many differences they saw."""
        pool = await open_pool(self.config.database_url, 4)
        now = await pool.fetchval("select clock_timestamp()")
        run = await pool.fetchval("insert into perdure.reconciliation (asked_by) values ('bench') returning run")
        findings = Findings(pool, run)
        context = Context(pool, self.temporal_client, app, self.config, findings, younger_than=now, asked_since=now)
        begun = time.monotonic()
        for part in PARTS.values():
            await part.does(context, None)
        took = time.monotonic() - begun
        await pool.close()
        return took, findings.mended_now.total() + findings.reported_now.total()


def main(
    rows: Annotated[list[int], typer.Option(help="How many entities have finished.")] = [10_000, 1_000_000],  # noqa: B006
    rounds: Annotated[int, typer.Option(help="How often each has its turn.", min=1)] = 9,
    entities: Annotated[int, typer.Option(help="How many are open.")] = 1000,
) -> None:
    """Measure, and print the table."""
    with PostgresServer() as postgres, TemporalServer() as temporal:
        took = asyncio.run(measure(postgres, temporal, sorted(rows), rounds, entities))
    table = Table(
        "finished", "seconds", "least - most", "ratio", title=f"a reconciliation of {entities:,} open entities"
    )
    worst = 0.0
    for count, found in took.items():
        fewest = next(iter(took.values()))
        ratio = statistics.median(each / first for first, each in zip(fewest, found, strict=True))
        worst = max(worst, ratio)
        span = f"{min(found):.2f} - {max(found):.2f}"
        table.add_row(f"{count:,}", f"{statistics.median(found):.2f}", span, f"{ratio:.2f}")
    Console().print(table)
    if worst >= GATE:
        raise typer.Exit(1)


async def measure(
    postgres: PostgresServer, temporal: TemporalServer, rows: list[int], rounds: int, entities: int
) -> dict[int, list[float]]:
    """Seconds of each round, by how many entities have finished. The first round, which fills caches, is left out."""
    Waiting.expects = EXPECTED
    took: dict[int, list[float]] = {count: [] for count in rows}
    pasts = [await _past(postgres, temporal, count) for count in rows]
    for past in pasts:
        await past.fill(entities)
        await past.reconcile()
    for _ in range(rounds):
        for past in pasts:
            seconds, differences = await past.reconcile()
            assert differences == 0, f"{differences} differences with {past.count} finished"
            took[past.count].append(seconds)
    return took


async def _past(postgres: PostgresServer, temporal: TemporalServer, count: int) -> Past:
    admin = await asyncpg.connect(postgres.dsn())
    await admin.execute(f"create database rows_{count}")
    await admin.close()
    config = Settings(database_url=postgres.dsn(f"rows_{count}"), scope=f"rows{count}")
    plugin = PerdurePlugin(app, config)
    temporal_client = await temporalio.client.Client.connect(
        temporal.address, plugins=[plugin], identity=new_identity()
    )
    return Past(count, config, temporal_client)


if __name__ == "__main__":
    typer.run(main)
