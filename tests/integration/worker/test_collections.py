"""What a worker has imported is no part of the collections of garbage that stop all its tasks."""

from __future__ import annotations

import asyncio
import gc
import os
import signal

import pytest

from perdure import PerdurePlugin
from perdure._worker.worker import run_worker
from tests.apps.straight import app
from tests.deadline import in_time, until
from tests.world import World


async def test_a_worker_that_runs_has_put_aside_what_it_has_imported(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TEMPORAL_ADDRESS", world.temporal.address)
    plugin = PerdurePlugin(app, world.config)
    gc.unfreeze()
    running = asyncio.create_task(run_worker(app, world.config, plugin=plugin))
    try:
        await until(lambda: gc.get_freeze_count() > 10_000 or running.done(), "the worker that runs")
        assert not running.done()
        assert plugin.ready.is_set()
    finally:
        gc.unfreeze()
        if not running.done():
            os.kill(os.getpid(), signal.SIGTERM)
        await in_time(running)
