"""Speed with 10^4, 10^6 (and 10^7) entities on record, and how many bytes a lifecycle leaves in the database.

Run it as `python -m bench.growth [--rows 10000 --rows 1000000] [--rounds 5]`. The entities of the past are made by SQL;
ten million take some minutes and some GB.
"""

from __future__ import annotations

import asyncio
import statistics
from typing import Annotated

import asyncpg
import typer
from rich.console import Console
from rich.table import Table

from bench.cost.life import living
from bench.cost.rig import Rig, rig

_PAST = """
    insert into perdure.ident (lifecycle, id, version, final)
        select 'inline', 'old-' || n, n, 'sent' from generate_series(1, {count}) n;
    insert into perdure.finished (lifecycle, id, generation, state, why, input, workflow_id, created_at)
        select 'inline', 'old-' || n, 0, 'sent', 'queued as 4Q', '{{"id": 1, "body": "Well said.", "author": "Ann"}}',
            'bench/inline/old-' || n, clock_timestamp() from generate_series(1, {count}) n;
"""
_TABLES = ("ident", "effect", "finished", "transition", "entity", "outbox")
# A table without partitions has no tree, and would count as nothing.
_SIZE = """
    select pg_total_relation_size($1::text::regclass)
        + coalesce((select sum(pg_total_relation_size(inhrelid)) from pg_inherits
            where inhparent = $1::text::regclass), 0)
"""


def main(
    rows: Annotated[list[int], typer.Option(help="How many entities are on record.")] = [10_000, 1_000_000],  # noqa: B006
    rounds: Annotated[int, typer.Option(help="How often each has its turn.")] = 5,
    runs: Annotated[int, typer.Option(help="Runs that are timed together, in each round.")] = 400,
) -> None:
    """Measure, and print the tables."""
    asyncio.run(_measure(sorted(rows), rounds, runs))


async def _measure(rows: list[int], rounds: int, runs: int) -> None:
    console = Console()
    async with rig(durable=True) as made:
        await _left_behind(made, runs, console)
        for count in rows:
            await made.add_database(f"rows_{count}")
            await _fill(made, count)
        speeds: dict[int, list[float]] = {count: [] for count in rows}
        for _ in range(rounds):
            for count in rows:
                speeds[count].append(await _speed(made, count, runs))
    table = Table("entities on record", "runs/s", "least - most", "slower than with the fewest", title="growth")
    for count, found in speeds.items():
        ratio = statistics.median(first / each for first, each in zip(speeds[rows[0]], found, strict=True))
        span = f"{min(found):.0f} - {max(found):.0f}"
        table.add_row(f"{count:,}", f"{statistics.median(found):.0f}", span, f"{ratio:.2f}")
    console.print(table)


async def _fill(made: Rig, count: int) -> None:
    connection = await asyncpg.connect(made.dsn(f"rows_{count}"))
    await connection.execute(_PAST.format(count=count), timeout=3600)
    await connection.execute("vacuum analyze perdure.ident, perdure.finished")
    await connection.execute("checkpoint")
    await connection.close()


async def _speed(made: Rig, count: int, runs: int) -> float:
    settings = {"PERDURE_DATABASE_URL": made.dsn(f"rows_{count}"), "PERDURE_SCOPE": f"rows{count}"}
    async with living(made, "inline", "dev", settings) as life:
        await life.order("crowd", runs=50, in_flight=200)
        answer = await life.order("crowd", runs=runs, in_flight=200)
    return runs / float(answer["seconds"])


async def _left_behind(made: Rig, runs: int, console: Console) -> None:
    """What real runs leave in each table, and in the write-ahead log."""
    connection = await asyncpg.connect(made.dsn("inline"))
    async with living(made, "inline", "dev", {}) as life:
        await life.order("crowd", runs=runs, in_flight=200)
        before = await _sizes(connection)
        await connection.execute("checkpoint")
        begun = await connection.fetchval("select pg_current_wal_lsn()")
        await life.order("crowd", runs=5 * runs, in_flight=200)
        written = await connection.fetchval("select pg_wal_lsn_diff(pg_current_wal_lsn(), $1::pg_lsn)", begun)
        after = await _sizes(connection)
    await connection.close()
    table = Table("table", "bytes per lifecycle, indexes included", title="what an inline lifecycle leaves")
    for name in _TABLES:
        table.add_row(f"perdure.{name}", f"{(after[name] - before[name]) / (5 * runs):,.0f}")
    table.add_row("write-ahead log", f"{float(written) / (5 * runs):,.0f}")
    console.print(table)


async def _sizes(connection: asyncpg.Connection[asyncpg.Record]) -> dict[str, int]:
    return {name: int(await connection.fetchval(_SIZE, f"perdure.{name}")) for name in _TABLES}


if __name__ == "__main__":
    typer.run(main)
