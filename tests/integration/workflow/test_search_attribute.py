"""The state as a search attribute, for those who want it, on a server that knows it."""

from __future__ import annotations

from pathlib import Path

from temporalio import workflow

from perdure import App, Lifecycle
from perdure.servers.postgres import PostgresServer
from perdure.servers.temporal import TemporalServer
from tests.apps.bookings import Count, Open
from tests.world import World


@workflow.defn(name="searchable")
class Searchable(Lifecycle[Count, Open]):
    """Waits until it is told, and can be found by its state."""

    search_attribute = "PerdureState"

    def __init__(self) -> None:
        self.told = False

    @workflow.run
    async def run(self, given: Count) -> None:
        """Wait, then close."""
        await self.wait_for(lambda: self.told)
        await self.enter(Open.CLOSED)

    @workflow.signal
    def close(self) -> None:
        """Close it."""
        self.told = True


async def test_a_lifecycle_can_be_found_by_its_state(postgres: PostgresServer, database: str, tmp_path: Path) -> None:
    app = App([Searchable], [])
    with TemporalServer(search_attributes={"PerdureState": "Keyword"}) as temporal:
        async with World(postgres, temporal, database, tmp_path).made(app) as world, world.worker(app):
            await world.client.start(Searchable, "a", Count())
            await world.until(lambda: _found(world, "counting"), "found as counting")
            await world.handle("searchable", "a").signal("close")
            await world.ended("searchable", "a")
            await world.until(lambda: _found(world, "closed"), "found as closed")


async def _found(world: World, state: str) -> bool:
    return (await world.temporal_client.count_workflows(f"PerdureState = '{state}'")).count == 1
