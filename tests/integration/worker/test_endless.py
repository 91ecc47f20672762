"""Code that never waits, or that blocks its thread, is interrupted by Temporal's SDK."""

from __future__ import annotations

import inspect
from typing import Any

import pytest
from temporalio.worker import _workflow

from tests.apps import endless
from tests.deadline import in_time
from tests.world import World

LINE = inspect.getsource(endless).partition("  # it is here")[0].count("\n") + 1
_PATIENT = _workflow._WorkflowWorker.__init__


def _as_in_production(self: _workflow._WorkflowWorker, **given: Any) -> None:
    _PATIENT(self, **given)
    self._deadlock_timeout_seconds = 2


@pytest.mark.world(endless.app)
async def test_the_attention_names_the_line_of_a_loop_that_never_waits(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_workflow._WorkflowWorker, "__init__", _as_in_production)
    async with world.worker(endless.app):
        await world.client.start(endless.Endless, "1", "x")
        await world.until(
            lambda: world.db.fetchval("select attention is not null from perdure.entity where id = '1'"),
            "it is reported",
        )
        assert await world.db.fetchval("select attention from perdure.entity where id = '1'") == (
            f"its code fails: DeclarationError: Temporal interrupted the lifecycle's code at endless.py:{LINE}, which "
            "ran too long without waiting: it loops for ever, or makes a blocking call"
        )


@pytest.mark.world(endless.app)
async def test_a_run_that_blocked_its_thread_continues_on_the_same_worker(
    world: World, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(_workflow._WorkflowWorker, "__init__", _as_in_production)
    endless.goes_on.clear()
    async with world.worker(endless.app):
        try:
            await world.client.start(endless.Blocking, "1", "x")
            await world.until(lambda: "eviction" in caplog.text, "the SDK tries to evict the run that blocks")
        finally:
            endless.goes_on.set()
        await in_time(world.handle("blocking", "1").result())
