"""Temporal loses all of its data under many open lifecycles, and `perdure recover` lets them go on."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from dataclasses import dataclass, field

import asyncpg
import temporalio.client

from bench.failover.cpu import cpu_seconds
from bench.failover.rig import DATABASE, Rig
from bench.polling import eventually

_START = """
    select perdure.start('waiting', n::text, $1::jsonb) from generate_series($2::int, $3::int) n
"""
_INPUT = '{"id": 1, "post_id": 1, "author": "Ann", "body": "Well said.", "recipient": "bob@example.org"}'
_ALL_WAIT = """
    select not exists (select from perdure.outbox)
        and (select count(*) from perdure.entity where state = 'waiting') = $1
"""
_DELIVERED = "select not exists (select from perdure.outbox)"
_AT_ONCE = 5_000


@dataclass(frozen=True, slots=True)
class Recovery:
    """Figures of the recovery.

    Attributes:
        lifecycles: open when Temporal lost its data.
        command: seconds that `perdure recover` took.
        running: seconds from its begin until every lifecycle has a running workflow again.
        workflows: running afterwards, by Temporal's own count.
        cpu: CPU seconds meanwhile, by process.
    """

    lifecycles: int
    command: float
    running: float
    workflows: int
    cpu: dict[str, float] = field(default_factory=dict)


async def lose_temporal(rig: Rig, lifecycles: int) -> Recovery:
    """Open the lifecycles, drop Temporal's databases, and recover."""
    worker = await rig.worker(app="bench.waiting:app")
    connection = await asyncpg.connect(rig.primary.dsn(DATABASE), command_timeout=600)
    for first in range(1, lifecycles + 1, _AT_ONCE):
        await connection.execute(_START, _INPUT, first, min(first + _AT_ONCE - 1, lifecycles))
    await eventually(lambda: connection.fetchval(_ALL_WAIT, lifecycles), "all lifecycles wait", patience=4 * 3600)
    await asyncio.to_thread(worker.stop)
    await asyncio.to_thread(rig.temporal.forget)
    await asyncio.to_thread(rig.temporal.start)
    await connection.execute("update perdure.database set exchanged_at = exchanged_at - interval '1 min'")
    servers = {
        "Temporal": rig.temporal.pid,
        "Temporal's PostgreSQL": rig.temporal.postgres.pid,
        "the application's PostgreSQL": rig.primary.pid,
    }
    before = {name: cpu_seconds(pid) for name, pid in servers.items()}
    begun = time.monotonic()
    await _recover(rig)
    command = time.monotonic() - begun
    worker = await rig.worker(app="bench.waiting:app")
    await eventually(lambda: connection.fetchval(_DELIVERED), "all are delivered again", patience=4 * 3600)
    running = time.monotonic() - begun
    cpu = {name: cpu_seconds(pid) - before[name] for name, pid in servers.items()}
    cpu["the worker"] = cpu_seconds(worker.pid)
    await connection.close()
    client = await temporalio.client.Client.connect(rig.temporal.address, namespace=rig.temporal.namespace)
    # Visibility is behind by a second or two.
    question = "ExecutionStatus = 'Running' and WorkflowType = 'waiting'"

    async def all_there() -> bool:
        return bool((await client.count_workflows(question)).count >= lifecycles)

    await eventually(all_there, "Temporal counts them all")
    return Recovery(lifecycles, command, running, (await client.count_workflows(question)).count, cpu)


async def _recover(rig: Rig) -> None:
    environment = os.environ | {"PERDURE_DATABASE_URL": rig.dsn(), "TEMPORAL_ADDRESS": rig.temporal.address}
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "perdure.cli", "recover", "--yes", "--by", "bench", "--note", "Temporal lost its data"),
        env=environment,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    out, _ = await process.communicate()
    if process.returncode:
        raise RuntimeError(out.decode())
