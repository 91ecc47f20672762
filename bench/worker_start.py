"""How long a worker takes from `perdure worker` to its first task: `python -m bench.worker_start [--rounds 5]`.

A start waits in the outbox already. CPU is that of the worker process. Other load distorts it least.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import statistics
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated

import asyncpg
import psutil
import typer
from rich.console import Console
from rich.table import Table

from bench.memory import INPUT, ROOT
from bench.polling import eventually
from perdure._store import schema
from perdure.servers.guard import GuardedProcess
from perdure.servers.postgres import PostgresServer
from perdure.servers.temporal import TemporalServer

IMPORTS = "import time; import perdure.cli.cli, perdure._worker.worker; print(time.process_time())"
STEPS = ("its imports", "runs: connected, checked, polling", "its first task is done")
_START = "select perdure.start('waiting', $1, $2::jsonb)"
_DONE = "select state = 'waiting' from perdure.entity where id = $1"


def main(rounds: Annotated[int, typer.Option(help="Starts of a worker; the first one does not count.")] = 5) -> None:
    """Measure, and print the table."""
    found = asyncio.run(_measure(rounds))
    table = Table("since its start", "CPU s", "seconds")
    for number, step in enumerate(STEPS):
        cpu, wall = ([each[number][kind] for each in found] for kind in (0, 1))
        table.add_row(step, _shown(cpu), _shown(wall))
    Console().print(table)


def _shown(figures: list[float]) -> str:
    return f"{statistics.median(figures):.2f} ({min(figures):.2f} - {max(figures):.2f})"


async def _measure(rounds: int) -> list[list[tuple[float, float]]]:
    with PostgresServer(durable=False) as postgres, TemporalServer() as temporal, TemporaryDirectory() as folder:
        database = await asyncpg.connect(postgres.dsn())
        await schema.migrate(database)
        environment = {**os.environ, "TEMPORAL_ADDRESS": temporal.address, "PERDURE_DATABASE_URL": postgres.dsn()}
        found = [await _start(database, environment, Path(folder) / f"{n}.log") for n in range(rounds + 1)]
        await database.close()
    return found[1:]


async def _start(
    database: asyncpg.Connection[asyncpg.Record], environment: dict[str, str], log: Path
) -> list[tuple[float, float]]:
    """CPU seconds and seconds at each of `STEPS`."""
    await database.execute(_START, log.name, json.dumps(INPUT))
    began = time.monotonic()
    imports = await asyncio.create_subprocess_exec(
        sys.executable, "-c", IMPORTS, cwd=ROOT, stdout=asyncio.subprocess.PIPE
    )
    output, _ = await imports.communicate()
    found = [(float(output), time.monotonic() - began)]
    command = [sys.executable, "-m", "perdure.cli", "worker", "bench.waiting:app"]
    began = time.monotonic()
    worker = GuardedProcess(command, ask=signal.SIGTERM, log=log, cwd=ROOT, env=environment)
    try:
        await eventually(lambda: "worker: running" in log.read_text(), "it runs", every=0.005)
        found.append(_taken(worker, began))
        await eventually(lambda: database.fetchval(_DONE, log.name), "its first task is done", every=0.005)
        found.append(_taken(worker, began))
    finally:
        await asyncio.to_thread(worker.stop)
    return found


def _taken(worker: GuardedProcess, began: float) -> tuple[float, float]:
    times = psutil.Process(worker.pid).cpu_times()
    return times.user + times.system, time.monotonic() - began


if __name__ == "__main__":
    typer.run(main)
