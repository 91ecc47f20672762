"""The state as a search attribute, for those who want it, on a server that knows it."""

from __future__ import annotations

from pathlib import Path

from temporalio import workflow

from perdure import App, Lifecycle
from perdure._wire.names import MIRROR
from perdure._wire.writes import Move, Write
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


async def test_a_run_that_the_database_has_ended_can_be_found_by_that_end(
    postgres: PostgresServer, database: str, tmp_path: Path
) -> None:
    """A worker that was frozen in a lost workflow task has written the end."""
    app = App([Searchable], [])
    with TemporalServer(search_attributes={"PerdureState": "Keyword"}) as temporal:
        async with World(postgres, temporal, database, tmp_path).made(app) as world, world.worker(app):
            await world.client.start(Searchable, "a", Count())
            await world.until(lambda: _found(world, "counting"), "found as counting")
            newest = Write(
                lifecycle="searchable",
                id="a",
                generation=0,
                version=await world.db.fetchval("select version + 1 from perdure.ident"),
                workflow_id=world.handle("searchable", "a").id,
                move=Move(state="closed", final=True),
            )
            await world.db.execute("select perdure.apply_write($1)", newest.model_dump_json())
            await world.handle("searchable", "a").signal(MIRROR, "a test")
            await world.until(lambda: _found(world, "closed"), "found as closed")


async def _found(world: World, state: str) -> bool:
    return (await world.temporal_client.count_workflows(f"PerdureState = '{state}'")).count == 1
