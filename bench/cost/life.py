"""One way at work: its worker process, and the app's process that starts runs."""

from __future__ import annotations

import asyncio
import json
import os
import secrets
import signal
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from bench.cost.rig import Rig, cpu_of
from bench.cost.ways import ROOT, WAYS
from perdure.servers.guard import GuardedProcess


class Life:
    """A way's processes; made by `living`."""

    def __init__(self, way: str, worker: GuardedProcess | None, driver: asyncio.subprocess.Process) -> None:
        self.way = way
        self.worker = worker
        self.driver = driver

    async def order(self, do: str, **how: Any) -> dict[str, Any]:
        """Let the app's process do something; its answer.

        Raises:
            RuntimeError: it ended instead.
        """
        assert self.driver.stdin is not None
        self.driver.stdin.write(json.dumps({"do": do, **how}).encode() + b"\n")
        return await self.answer()

    async def answer(self) -> dict[str, Any]:
        """Its next answer."""
        assert self.driver.stdout is not None
        line = await asyncio.wait_for(self.driver.stdout.readline(), 600)
        if not line:
            raise RuntimeError(f"the app's process of {self.way} ended; its output is above")
        answer: dict[str, Any] = json.loads(line)
        return answer

    def pids(self) -> list[int]:
        """Its processes."""
        return [self.driver.pid, *([self.worker.pid] if self.worker else [])]

    def worker_cpu(self) -> float:
        """CPU seconds of the worker process so far."""
        return cpu_of(self.worker.pid) if self.worker else 0.0


@asynccontextmanager
async def living(
    rig: Rig, way: str, server: str, settings: Mapping[str, str], *, dsn: str | None = None
) -> AsyncIterator[Life]:
    """The way's processes, on one of the Temporal servers.

    Args:
        settings: environment variables of both processes.
        dsn: the database as the worker sees it, where that is not the way's own.
    """
    task_queue = f"bench-{way}"
    environment = {
        # Without it the sandbox would compile each lifecycle's module anew for every run.
        **{name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"},
        "PYTHONUNBUFFERED": "1",
        "TEMPORAL_ADDRESS": rig.servers[server].address,
        "PERDURE_DATABASE_URL": rig.dsn(way),
        "PERDURE_SCOPE": f"bench-{way}-{secrets.token_hex(3)}",
        "PERDURE_TASK_QUEUE": task_queue,
        "BENCH_SMTP_PORT": str(rig.smtp_port),
        **settings,
    }
    worker = None
    try:
        if WAYS[way].perdure:
            await rig.unbind(way)
        if WAYS[way].worker is not None:
            own = {**environment, "PERDURE_DATABASE_URL": dsn} if dsn else environment
            worker = await _worker(rig, way, task_queue, own)
        driver = await asyncio.create_subprocess_exec(
            *(WAYS[way].python, "-m", "bench.cost.driver", WAYS[way].starter, task_queue),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            cwd=ROOT,
            env=environment,
        )
        life = Life(way, worker, driver)
        try:
            await life.answer()
            yield life
        finally:
            assert driver.stdin is not None
            driver.stdin.close()
            await asyncio.wait_for(driver.wait(), 30)
    finally:
        if worker is not None:
            await asyncio.to_thread(worker.stop)


async def _worker(rig: Rig, way: str, task_queue: str, environment: dict[str, str]) -> GuardedProcess:
    log = rig.folder / f"worker-{way}.log"
    log.unlink(missing_ok=True)
    made = WAYS[way]
    command: list[str | Path] = [made.python, "-m", *(made.worker or ()), *([] if made.perdure else [task_queue])]
    process = GuardedProcess(command, ask=signal.SIGTERM, log=log, cwd=ROOT, env=environment)
    while b"worker: running" not in log.read_bytes():
        if not process.running:
            raise RuntimeError(f"the worker of {way} did not start: {log.read_text()}")
        await asyncio.sleep(0.05)
    return process
