"""`perdure services` delivers and reconciles for workers that do neither, and stops as a worker does."""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import AsyncIterator
from functools import partial

import aiohttp
import pytest

from perdure.servers.ports import free_port
from tests.apps.bodies import app
from tests.command import perdure
from tests.deadline import in_time
from tests.world import World


class ServiceProcess:
    """`perdure services` in a process of its own."""

    def __init__(self, world: World, process: asyncio.subprocess.Process, health: str) -> None:
        self.health = health
        self._world = world
        self._process = process
        self._log = world.folder / "services.log"

    async def runs(self) -> None:
        """Wait until it runs."""
        await self._world.until(lambda: "perdure.worker: running" in self._log.read_text(), f"it runs, see {self._log}")

    async def says_yes(self, question: str) -> bool:
        """Whether its answer is yes, without a reason against it."""
        async with aiohttp.ClientSession() as http, http.get(f"http://{self.health}/{question}") as answer:
            return bool(await answer.json() == {question: True, "reasons": []})

    async def stop(self) -> int:
        """SIGTERM; its exit status."""
        if self._process.returncode is None:
            self._process.send_signal(signal.SIGTERM)
        return await in_time(self._process.wait())


@pytest.fixture
async def services(world: World, request: pytest.FixtureRequest) -> AsyncIterator[ServiceProcess]:
    """One that has its start-up before it; with no name of a service it runs all of them."""
    health = f"127.0.0.1:{free_port()}"
    with (world.folder / "services.log").open("wb") as log:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "perdure.cli", "services", "tests.apps.bodies:app", *request.param),
            env={**world.environment(), "PERDURE_HEALTH": health},
            stdout=log,
            stderr=log,
        )
    yield ServiceProcess(world, process, health)
    if process.returncode is None:
        process.kill()
        await process.wait()


@pytest.mark.parametrize("services", [()], indirect=True)
async def test_it_delivers_and_reconciles_for_workers_that_do_neither_and_exits_0(
    world: World, services: ServiceProcess
) -> None:
    await world.db.execute("select perdure.start('lookup', n::text, '{}') from generate_series(1, 20) n")
    async with world.worker(app, relay=False, reconciliation=False):
        await world.until(lambda: world.db.fetchval("select count(*) = 20 from perdure.finished"), "all done")
        assert set(world.counterparty.accepted.values()) == {1}
        await services.runs()
        for question in ("live", "ready"):
            await world.until(partial(services.says_yes, question), f"it is {question}")
        assert (await perdure(world, "reconcile", "--now")).exit_code == 0
        assert await world.db.fetchval("select count(*) from perdure.reconciliation where ended_at is not null") == 1
        assert await services.stop() == 0
        await world.db.execute("select perdure.start('repeat', 'late', '{}')")
        assert await world.db.fetchval("select count(*) from perdure.outbox") == 1


@pytest.mark.parametrize("services", [("relay",)], indirect=True)
async def test_it_exits_0_with_postgres_and_temporal_gone(world: World, services: ServiceProcess) -> None:
    await services.runs()
    world.temporal.pause()
    await asyncio.to_thread(world.postgres.kill)
    try:
        assert await services.stop() == 0
    finally:
        await world.servers_are_back()
