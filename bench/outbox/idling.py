"""What looking for starts costs while there are none: CPU of an idle worker and of PostgreSQL."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import tempfile
import time
from pathlib import Path

import psutil

from bench.cost.rig import cpu_of
from bench.cost.ways import ROOT
from bench.outbox.rig import Rig
from perdure.servers.guard import GuardedProcess


async def idle(here: Rig, relay_poll_interval: float | None, seconds: float) -> tuple[float, float]:
    """Per cent of one core: of a worker, and of PostgreSQL for it.

    Args:
        relay_poll_interval: seconds between two looks; None = a worker without a relay.
        seconds: for how long it is watched.
    """
    await here.forget()
    environment = os.environ | {
        "PERDURE_DATABASE_URL": here.config.database_url,
        "PERDURE_TASK_QUEUE": here.config.task_queue,
        "TEMPORAL_ADDRESS": here.temporal.address,
        **(
            {"PERDURE_RELAY": "false"}
            if relay_poll_interval is None
            else {"PERDURE_RELAY_POLL_INTERVAL": str(relay_poll_interval)}
        ),
    }
    with tempfile.TemporaryDirectory(prefix="perdure-bench-") as folder:
        log = Path(folder) / "worker.log"
        command = [sys.executable, "-m", "perdure.cli", "worker", "bench.outbox.life:app"]
        worker = GuardedProcess(command, ask=signal.SIGTERM, log=log, cwd=ROOT, env=environment)
        try:
            async with asyncio.timeout(60):
                while "running" not in log.read_text():  # noqa: ASYNC110 - only its log shows it
                    await asyncio.sleep(0.05)
            await asyncio.sleep(min(1.0, seconds))
            return await _used(worker.pid, here.postgres.pid, seconds)
        finally:
            worker.stop()


async def _used(worker: int, postmaster: int, seconds: float) -> tuple[float, float]:
    before, since = (cpu_of(worker), _family(postmaster)), time.monotonic()
    await asyncio.sleep(seconds)
    taken = time.monotonic() - since
    return 100 * (cpu_of(worker) - before[0]) / taken, 100 * (_family(postmaster) - before[1]) / taken


def _family(pid: int) -> float:
    return sum(cpu_of(each.pid) for each in [psutil.Process(pid), *psutil.Process(pid).children()])
