"""PERDURE_LOG=json: every line that a worker process writes is a JSON object, also those of Temporal's SDK."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from perdure.servers.postgres import PostgresServer
from perdure.servers.temporal import TemporalServer
from tests.apps.bodies import app
from tests.world import FreshWorkerProcess, WorkerProcess, World


@pytest.fixture
def own(tmp_path: Path) -> Iterator[TemporalServer]:
    """A server that can be stopped."""
    with TemporalServer(db_file=tmp_path / "temporal.db") as server:
        yield server


@pytest.fixture
async def apart(postgres: PostgresServer, own: TemporalServer, database: str, tmp_path: Path) -> AsyncIterator[World]:
    """A world on that server."""
    async with World(postgres, own, database, tmp_path).made(app) as made:
        yield made


def lines(worker: WorkerProcess) -> list[dict[str, Any]]:
    """Each line of its log, which fails where one is no JSON; the last may not be whole yet."""
    return [json.loads(line) for line in worker.text().split("\n")[:-1]]


async def test_while_temporal_is_away_every_line_is_json(apart: World, own: TemporalServer) -> None:
    worker = FreshWorkerProcess(apart, "tests.apps.bodies:app", {"PERDURE_LOG": "json"})
    apart.workers.append(worker)
    await worker.launch()
    await apart.until(lambda: any(line["message"] == "running" for line in lines(worker)), "the worker runs")
    own.stop()
    await apart.until(lambda: any(line["logger"] == "temporalio.core" for line in lines(worker)), "the SDK logs")
    assert await worker.stop() == 0
    assert all({"time", "level", "logger", "message"} <= set(line) for line in lines(worker))
    assert "\x1b" not in worker.text()


async def test_why_it_ended_is_json_too(world: World) -> None:
    worker = FreshWorkerProcess(world, "tests.apps.bodies:app", {"PERDURE_LOG": "json", "TEMPORAL_NAMESPACE": "nope"})
    world.workers.append(worker)
    await worker.launch()
    assert await worker.gone() == 1
    *_, last = lines(worker)  # on a slow machine it says before that it waits
    assert last["level"] == "critical"
    assert "has no namespace 'nope'" in last["message"]
