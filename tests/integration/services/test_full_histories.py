"""Temporal limits the signals that one run may have: a message beyond them waits for the next run."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from perdure._services.relay import Relay
from perdure._store.postgres import Database
from perdure.servers.postgres import PostgresServer
from perdure.servers.temporal import TemporalServer
from tests.apps.listening import app
from tests.integration.services.test_rows_in_the_way import SIGNAL, START
from tests.world import World


@pytest.fixture(scope="module")
def strict() -> Iterator[TemporalServer]:
    """A server that accepts few signals for one run."""
    with TemporalServer(dynamic_config={"history.maximumSignalsPerExecution": "2"}) as server:
        yield server


@pytest.fixture
async def world(
    postgres: PostgresServer, strict: TemporalServer, database: str, tmp_path: Path
) -> AsyncIterator[World]:
    async with World(postgres, strict, database, tmp_path).made(app) as made:
        yield made


async def test_a_message_that_the_run_has_no_room_for_waits_and_is_not_rejected(world: World) -> None:
    await world.db.execute(START, "a")
    for _ in range(3):
        await world.db.execute(SIGNAL, "a")
    database = Database(world.dsn)
    relay = Relay(await database.open(), world.temporal_client, app, world.config)

    async def tried() -> bool:
        await relay.once()
        return bool(
            await world.db.fetchval("select count(*) = 1 and every(tries > 0) from perdure.outbox")
            or await world.db.fetchval("select count(*) > 0 from perdure.rejected")
        )

    try:
        await world.until(tried, "tried")
    finally:
        await database.close()
    assert await world.db.fetch("select reason from perdure.rejected") == []
    assert "its run has as many signals as Temporal permits" in await world.db.fetchval(
        "select error from perdure.outbox"
    )
