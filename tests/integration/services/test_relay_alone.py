"""`perdure relay` delivers for workers that run no relay, and stops as a worker does."""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import AsyncIterator

import pytest

from tests.apps.bodies import app
from tests.deadline import in_time
from tests.world import World


class RelayProcess:
    """`perdure relay` in a process of its own."""

    def __init__(self, world: World, process: asyncio.subprocess.Process) -> None:
        self._world = world
        self._process = process
        self._log = world.folder / "relay.log"

    async def runs(self) -> None:
        """Wait until it delivers."""
        await self._world.until(lambda: "perdure.worker: running" in self._log.read_text(), f"it runs, see {self._log}")

    async def stop(self) -> int:
        """SIGTERM; its exit status."""
        if self._process.returncode is None:
            self._process.send_signal(signal.SIGTERM)
        return await in_time(self._process.wait())


@pytest.fixture
async def relay(world: World) -> AsyncIterator[RelayProcess]:
    """One that has its start-up before it."""
    with (world.folder / "relay.log").open("wb") as log:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "perdure.cli", "relay", "tests.apps.bodies:app"),
            env=world.environment(),
            stdout=log,
            stderr=log,
        )
    yield RelayProcess(world, process)
    if process.returncode is None:
        process.kill()
        await process.wait()


async def test_it_delivers_to_workers_that_have_no_relay_and_exits_0(world: World, relay: RelayProcess) -> None:
    await world.db.execute("select perdure.start('lookup', n::text, '{}') from generate_series(1, 20) n")
    async with world.worker(app, relay=False):
        await world.until(lambda: world.db.fetchval("select count(*) = 20 from perdure.finished"), "all done")
        assert set(world.counterparty.accepted.values()) == {1}
        await relay.runs()
        assert await relay.stop() == 0
        await world.db.execute("select perdure.start('repeat', 'late', '{}')")
        assert await world.db.fetchval("select count(*) from perdure.outbox") == 1


async def test_it_exits_0_with_postgres_and_temporal_gone(world: World, relay: RelayProcess) -> None:
    await relay.runs()
    world.temporal.pause()
    await asyncio.to_thread(world.postgres.kill)
    try:
        assert await relay.stop() == 0
    finally:
        await world.servers_are_back()
